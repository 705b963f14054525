"""Dead clients, servers and workers, full disks: nothing measured is lost, nothing runs on."""

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.cli.helpers import bench_client, load, one_line, prompts
from tests.cli.processes import (
    PARALLEL,
    STUCK,
    TOKENS,
    client,
    kinds,
    launched,
    launched_pair,
    one_error,
    whole,
)
from tests.conftest import StartSim, free_port


def test_a_killed_client_leaves_a_readable_folder(tmp_path: Path) -> None:
    with client(tmp_path, *launched(tmp_path)) as running:
        running.until_records(5)
        running.signal(signal.SIGKILL)
        running.code()
        running.leaves_nothing()
    assert running.header["ended"] is None
    assert running.header["server"]["engine_version"]
    done = bench_client("report", running.folder)
    assert done.returncode == 0, done.stderr
    ended = len(whole(running.records()))
    assert ended >= 5
    assert f"{ended} ok, 0 failed" in done.stdout
    assert f"cut off after {ended} of 60 requests" in done.stdout
    assert running.said.count("Traceback") == 0


def test_killed_in_an_arms_second_block(tmp_path: Path) -> None:
    """Arms run ABBA: the first block's header must not pass for a whole run."""
    with client(tmp_path, *launched_pair(tmp_path, "--repeat", 2)) as running:
        running.until(lambda: running.said.count("launching sim ...") == 2, within=40)
        running.until(lambda: running.said.count("sim  1/4") == 2)
        running.signal(signal.SIGKILL)
        running.code()
        running.leaves_nothing()
    first, _ = sorted(running.results.iterdir(), key=lambda path: len(path.name))
    assert load(first / "run.json")["ended"] is None
    done = bench_client("report", first)
    assert "cut off after" in done.stdout
    assert "of 8 requests" in done.stdout


def test_killed_with_workers_in_a_stuck_request(tmp_path: Path, start_sim: StartSim) -> None:
    """Against a server that lives on: the workers would wait for it."""
    url = start_sim("--fixed", "5:2")
    run = ("--url", url, "--scenario", prompts(tmp_path / "p.jsonl", 4), "--warmup", 0)
    with client(tmp_path, *run, *PARALLEL, *STUCK) as running:
        running.until_said("url  1/4")
        running.until(lambda: len(running.tree("bench_client.run.worker")) == 2)
        time.sleep(0.5)
        running.signal(signal.SIGKILL)
        running.code()
        running.leaves_nothing()


@pytest.mark.parametrize("more", [("--concurrency", 2), PARALLEL])
def test_a_server_killed_while_measured_ends_the_run(
    tmp_path: Path, more: tuple[object, ...]
) -> None:
    with client(tmp_path, *launched(tmp_path, *more, count=400)) as running:
        running.until_records(4)
        (server,) = running.tree("bench_client.sim")
        server.kill()
        assert running.code() == 1
        running.leaves_nothing()
    kept = running.records()
    assert set(kinds(kept)) <= {"reset", "truncated", "connect", "interrupted"}
    assert 1 <= len(kinds(kept)) <= 40  # not all of the 400
    assert len(whole(kept)) >= 4
    assert running.header["ended"] == "aborted"
    assert "sim: the server died: it ended with code -9" in one_error(running)
    assert running.header["client"]["stamp_source"] == "kernel"
    assert f"{len(whole(kept))} ok" in running.printed


@pytest.mark.parametrize("more", [(), PARALLEL, ("--request-rate", 200)])
def test_a_server_that_is_not_ours_and_dies_ends_the_run(
    tmp_path: Path, start_sim: StartSim, more: tuple[object, ...]
) -> None:
    url = start_sim("--fixed", "20:5")
    run = ("--url", url, "--scenario", prompts(tmp_path / "p.jsonl", 2000), "--no-calibrate")
    with client(tmp_path, *run, "--max-tokens", TOKENS, "--ignore-eos", *more) as running:
        running.until_records(4)
        port = url.rpartition(":")[2]
        (server,) = [each for each in psutil.Process().children() if port in each.cmdline()]
        server.kill()
        assert running.code() == 1
        running.leaves_nothing()
    kept = running.records()
    assert len(whole(kept)) >= 4
    assert "connect" in kinds(kept)
    assert len(kept) < 1000
    assert running.header["ended"] == "aborted"
    assert "refused" in running.header["note"]
    assert "url: the server died: it refused" in one_error(running)


def test_a_server_that_dies_with_its_last_request_is_noticed(tmp_path: Path) -> None:
    dying = ("--launch-arg=--fault", "--launch-arg=die:5", "--warmup", 0)
    with client(tmp_path, *launched(tmp_path, *dying, count=1)) as running:
        assert running.code() == 1
        running.leaves_nothing()
    (record,) = running.records()
    assert record["failure"]["kind"] in {"reset", "truncated"}
    assert record["events"]["tokens"] == [1] * 5
    assert "the server died: it ended with code -9" in one_error(running)


@pytest.mark.parametrize("more", [(), PARALLEL])
def test_a_server_that_dies_while_warming_up(tmp_path: Path, more: tuple[object, ...]) -> None:
    dying = ("--launch-arg=--fault", "--launch-arg=die:5")
    with client(tmp_path, *launched(tmp_path, *dying, *more)) as running:
        assert running.code() == 1
        running.leaves_nothing()
    assert "sim: the server died: it ended with code -9" in one_error(running)
    assert running.header["ended"] == "aborted"
    assert len(running.records()) <= 20


def test_a_lost_worker_fails_its_share_only(tmp_path: Path) -> None:
    with client(tmp_path, *launched(tmp_path, *PARALLEL, count=40)) as running:
        running.until_records(8)
        running.tree("bench_client.run.worker")[0].kill()
        assert running.code() == 1
        running.leaves_nothing()
    kept = running.records()
    assert len({record["id"] for record in kept}) == len(kept) == 40
    lost = [record for record in kept if record["failure"]]
    assert set(kinds(kept)) == {"worker_lost"}
    assert len({record["worker"] for record in lost}) == 1
    (name,) = {record["worker"] for record in lost}
    others = [record for record in kept if record["worker"] != name]
    assert len(whole(others)) == len(others) == 20
    assert running.header["client"]["workers"] == 2
    assert "worker_lost" in running.printed


# Past this size a file takes no more bytes, as on a full disk.
_LIMITED = (
    "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000));"
    "from bench_client.cli import main; main()"
)
# Too small for the pages of five requests, and for five answers of 200 events each.
_SMALLER = _LIMITED.replace("50_000", "11_000")


@pytest.mark.parametrize("more", [("--concurrency", 2), PARALLEL, ("--request-rate", 40)], ids=str)
def test_a_full_disk_ends_the_run_in_one_line(tmp_path: Path, more: tuple[object, ...]) -> None:
    run = launched(tmp_path, *more, count=110, fixed="5:1")
    with client(tmp_path, *run, program=_LIMITED) as running:
        assert running.code() == 1
        running.leaves_nothing()
    assert "cannot write to" in one_error(running)
    assert "--results" in one_error(running)
    lines = (running.folder / "requests.jsonl").read_text().split("\n")[:-1]
    assert 20 < len(lines) < 100
    assert not list(running.folder.glob(".*.tmp"))
    done = bench_client("report", running.folder, "--json")
    assert done.returncode == 0, done.stderr
    (read,) = json.loads(done.stdout)["runs"]
    assert read["summary"]["requests"]["ok"] == len(lines)
    assert "interrupted" in [doubt["code"] for doubt in read["summary"]["doubts"]]


def test_a_disk_that_is_full_from_the_start(tmp_path: Path) -> None:
    run = launched(tmp_path, count=200)  # a plan of more than the limit
    with client(tmp_path, *run, program=_LIMITED) as running:
        assert running.code() == 1
    assert "run.json: File too large" in one_error(running)
    assert [path.name for path in running.folder.iterdir()] == ["requests.jsonl"]


def _few_events(home: Path, *servers: str) -> tuple[object, ...]:
    """Five long answers a server, that of the first in about 50 events each."""
    return (
        *(part for name in servers for part in ("--server", name)),
        *("--launch-arg=--step-ms", "--launch-arg=2", "--launch-arg=--verify-ms"),
        *("--launch-arg=4", "--port", free_port(), "--scenario", prompts(home / "p.jsonl", 5)),
        *("--max-tokens", 200, "--ignore-eos", "--no-calibrate"),
    )


def test_what_was_measured_before_the_disk_filled_up_is_reported(tmp_path: Path) -> None:
    run = _few_events(tmp_path, "sim-eagle3", "sim")
    with client(tmp_path, *run, program=_SMALLER) as running:
        assert running.code() == 1
        running.leaves_nothing()
    first, second = sorted(running.results.iterdir(), key=lambda path: "eagle3" not in path.name)
    assert f"cannot write to {second}" in one_error(running)
    assert 1 <= len((second / "requests.jsonl").read_text().split("\n")[:-1]) < 5
    # Its own page found no room either.
    assert not (first / "report.html").exists()
    assert "5 ok, 0 failed" in running.printed
    assert f"results: {first}" in running.printed


def test_a_report_that_finds_no_room_is_shown_all_the_same(tmp_path: Path) -> None:
    run = _few_events(tmp_path, "sim-eagle3")
    with client(tmp_path, *run, program=_SMALLER) as running:
        assert running.code() == 1
        running.leaves_nothing()
    assert f"cannot write {running.folder}/report.html" in one_error(running)
    assert running.header["ended"] == "complete"
    assert "5 ok, 0 failed" in running.printed


def test_the_sampler_leaves_a_full_disk_to_the_client() -> None:
    sampler = [sys.executable, "-m", "bench_client.run.telemetry", "/dev/full"]
    with subprocess.Popen(sampler, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.wait(20) == 0
        assert process.stderr
        assert process.stderr.read() == b""


def test_a_folder_that_nobody_can_make(tmp_path: Path) -> None:
    done = bench_client("--server", "sim", "--results", "/proc/results")
    assert done.returncode == 2
    assert "cannot write results to /proc/results" in one_line(done)


def test_the_first_arm_is_reported_if_the_second_cannot_be_launched(tmp_path: Path) -> None:
    # --fixed has no engine that could speculate.
    run = launched(tmp_path, "--server", "sim-eagle3", count=3)
    with client(tmp_path, *run) as running:
        assert running.code() == 3
        running.leaves_nothing()
    assert "3 ok, 0 failed" in running.printed
    first, second = sorted(running.results.iterdir(), key=lambda path: len(path.name))
    assert f"results: {first}" in running.printed
    assert load(first / "summary.json")["requests"]["ok"] == 3
    assert load(second / "run.json")["ended"] == "aborted"
    assert "sim-eagle3: it ended with code 2" in one_error(running)
    assert running.said.rstrip().endswith(one_error(running))


def test_a_run_that_cannot_be_calibrated_stands(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        program = (
            f"from bench_client.run import calibrate; calibrate._free_port = lambda: {port};"
            "from bench_client.cli import main; main()"
        )
        run = launched(tmp_path, "--calibrate", count=3)
        with client(tmp_path, *run, program=program) as running:
            assert running.code() == 0
            running.leaves_nothing()
    assert running.header["ended"] == "complete"
    assert running.header["client"]["calibration"] is None
    assert f"not calibrated: calibration: port {port} is in use" in one_error(running)
    assert "3 ok, 0 failed" in running.printed
