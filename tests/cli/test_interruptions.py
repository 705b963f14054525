"""Ctrl-C and SIGTERM at every stage of a run: what was measured is kept, nothing runs on."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.helpers import BENCH_CLIENT, load, prompts
from tests.cli.processes import (
    PARALLEL,
    STUCK,
    client,
    kinds,
    launched,
    launched_pair,
    one_error,
    whole,
)
from tests.conftest import StartSim, free_port

AGAIN_S = 0.6  # a signal that comes sooner is the first one over again


@pytest.mark.parametrize(
    ("number", "more"),
    [
        (signal.SIGINT, ()),
        (signal.SIGTERM, ()),
        (signal.SIGINT, PARALLEL),
        (signal.SIGINT, ("--request-rate", 6)),
    ],
)
def test_one_signal_keeps_and_reports_what_was_measured(
    tmp_path: Path, number: int, more: tuple[object, ...]
) -> None:
    with client(tmp_path, *launched(tmp_path, *more)) as running:
        running.until_records(4)
        running.signal(number)
        assert running.code() == 130
        running.leaves_nothing()
    kept = running.records()
    assert running.header["ended"] == "interrupted"
    assert running.header["duration_ns"] > 0
    assert len(whole(kept)) >= 4
    assert set(kinds(kept)) <= {"interrupted"}
    assert len(kept) < 60
    summary = load(running.folder / "summary.json")
    assert summary["requests"]["ok"] == len(whole(kept))
    assert "interrupted" in [doubt["code"] for doubt in summary["doubts"]]
    assert f"{len(whole(kept))} ok" in running.printed
    assert f"results: {running.folder}" in running.printed
    assert (running.folder / "report.html").stat().st_size > 0
    assert "Traceback" not in running.said


def test_a_signal_ends_a_stuck_request(tmp_path: Path) -> None:
    with client(tmp_path, *launched(tmp_path, "--warmup", 0, *STUCK)) as running:
        running.until_said("sim  1/60")
        running.signal(signal.SIGINT)
        assert running.code() == 130
        running.leaves_nothing()
    assert kinds(running.records()) == ["interrupted"]
    assert "0 ok, 1 failed" in running.printed


@pytest.mark.parametrize("apart_s", [0.0, 0.003, 0.1])
def test_a_signal_that_comes_twice_is_one(tmp_path: Path, apart_s: float) -> None:
    """Slurm's scancel reaches the client, and the script that hands it on to the client."""
    with client(tmp_path, *launched(tmp_path)) as running:
        running.until_records(4)
        running.process.send_signal(signal.SIGTERM)
        time.sleep(apart_s)
        running.process.send_signal(signal.SIGTERM)
        assert running.code() == 130
        running.leaves_nothing()
    assert running.header["ended"] == "interrupted"
    assert "ok" in running.printed
    assert (running.folder / "report.html").stat().st_size > 0
    assert "Traceback" not in running.said


@pytest.mark.parametrize("more", [(), PARALLEL])
def test_a_second_signal_waits_for_nothing(tmp_path: Path, more: tuple[object, ...]) -> None:
    """Not even for a server that does not answer and does not end."""
    with client(tmp_path, *launched(tmp_path, *more)) as running:
        running.until_records(4)
        (server,) = running.tree("bench_client.sim")
        server.suspend()
        running.signal(signal.SIGINT)
        running.until_said("once more to stop at once")
        time.sleep(AGAIN_S)
        running.signal(signal.SIGTERM)
        assert running.code(within=2) == 130
        server.resume()
        running.leaves_nothing()
    assert running.header["ended"] == "interrupted"
    assert len(whole(running.records())) >= 4
    assert "Traceback" not in running.said


def test_a_second_signal_reports_nothing(tmp_path: Path) -> None:
    """Nor any arm that was measured before; its records are on the disk."""
    with client(tmp_path, *launched_pair(tmp_path)) as running:
        running.until_said("sim-eagle3  1/4")
        (server,) = running.tree("bench_client.sim")
        server.suspend()
        running.signal(signal.SIGINT)
        running.until_said("once more to stop at once")
        time.sleep(AGAIN_S)
        running.signal(signal.SIGINT)
        assert running.code(within=2) == 130
        server.resume()
        running.leaves_nothing()
    assert running.printed == ""
    ends = {load(path)["ended"] for path in running.results.glob("*/run.json")}
    assert ends == {"complete", "interrupted"}


def test_a_signal_while_the_server_is_launching(tmp_path: Path) -> None:
    slow = ("--launch-arg=--startup-delay-s", "--launch-arg=60")
    with client(tmp_path, *launched(tmp_path, *slow)) as running:
        running.until(lambda: running.tree("bench_client.sim"))
        running.signal(signal.SIGINT)
        assert running.code() == 130
        running.leaves_nothing()
    assert running.header["ended"] == "interrupted"
    assert running.records() == []
    log = running.folder / "server.log"
    said = f"interrupted while launching sim: nothing of sim was measured, see {log}"
    assert one_error(running) == f"bench-client: {said}"


def test_a_signal_that_comes_twice_while_launching_is_one(tmp_path: Path) -> None:
    """The server, which takes a second to end, is waited for."""
    slow = ("--launch-arg=--startup-delay-s", "--launch-arg=60")
    run = launched(tmp_path, *slow)
    with client(tmp_path, *run, program=slow_to_end(tmp_path)) as running:
        running.until((tmp_path / "trapped").exists)
        running.process.send_signal(signal.SIGINT)
        time.sleep(0.15)
        running.process.send_signal(signal.SIGTERM)
        assert running.code() == 130
        assert (tmp_path / "ended").exists()
        running.leaves_nothing(within=1)
    assert "stopping sim" in running.said
    assert running.header["ended"] == "interrupted"
    assert "interrupted while launching sim" in one_error(running)


def test_a_signal_while_a_server_is_launched_by_hand(tmp_path: Path) -> None:
    slow = ("--launch-arg=--startup-delay-s", "--launch-arg=60")
    command = (*BENCH_CLIENT, "launch", "sim", "--port", str(free_port()), *slow)
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        assert process.stderr.readline().startswith("launching sim")
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        told = process.stderr.read().strip()  # click ends the line that Ctrl-C is shown in
        assert told == "bench-client: interrupted while launching sim"
    assert process.returncode == 130


def test_a_second_signal_while_launching_waits_for_nothing(tmp_path: Path) -> None:
    slow = ("--launch-arg=--startup-delay-s", "--launch-arg=60")
    run = launched(tmp_path, *slow)
    with client(tmp_path, *run, program=slow_to_end(tmp_path)) as running:
        running.until((tmp_path / "trapped").exists)
        running.process.send_signal(signal.SIGINT)
        time.sleep(AGAIN_S)
        running.process.send_signal(signal.SIGINT)
        assert running.code(within=0.8) == 130
        running.leaves_nothing()
    assert "interrupted while" not in running.said


@pytest.mark.parametrize(("number", "more"), [(signal.SIGINT, PARALLEL), (signal.SIGTERM, ())])
def test_a_signal_while_warming_up(tmp_path: Path, number: int, more: tuple[object, ...]) -> None:
    with client(tmp_path, *launched(tmp_path, *STUCK, *more)) as running:
        running.until_said("warming up")
        running.until(lambda: len(running.tree("bench_client.run.worker")) == (2 if more else 0))
        time.sleep(0.5)
        running.signal(number)
        assert running.code() == 130
        running.leaves_nothing()
    assert running.header["ended"] == "interrupted"
    assert running.records() == []
    log = running.folder / "server.log"
    said = f"interrupted while warming up: nothing of sim was measured, see {log}"
    assert one_error(running) == f"bench-client: {said}"


def test_a_run_by_url_that_measured_nothing_leaves_no_folder(
    tmp_path: Path, start_sim: StartSim
) -> None:
    scenario = prompts(tmp_path / "p.jsonl")
    with client(tmp_path, "--url", start_sim(), "--scenario", scenario, *STUCK) as running:
        running.until_said("warming up")
        time.sleep(0.5)
        running.process.send_signal(signal.SIGINT)
        assert running.code() == 130
    said = "interrupted while warming up: nothing of url was measured"
    assert one_error(running) == f"bench-client: {said}"
    assert list(running.results.iterdir()) == []


# Its children see the SIGTERM and end; the shell around them takes its time.
_SLOW = """#!/bin/sh
trap 'sleep 1.2; touch {home}/ended; exit' TERM
touch {home}/trapped
{python} "$@" &
wait
wait
sleep 60
"""
_PROGRAM = """
from types import SimpleNamespace
from server_launchers import launch
launch.sys = SimpleNamespace(executable={python!r})
from bench_client.cli import main
main()
"""


def slow_to_end(home: Path) -> str:
    """The command, whose embedded engine takes more than a second to end."""
    python = home / "python"
    python.write_text(_SLOW.format(python=sys.executable, home=home))
    python.chmod(0o755)
    return _PROGRAM.format(python=str(python))


def test_a_signal_while_the_server_is_torn_down(tmp_path: Path) -> None:
    run = launched(tmp_path, count=3)
    with client(tmp_path, *run, program=slow_to_end(tmp_path)) as running:
        running.until_said("stopping sim")
        running.signal(signal.SIGINT)
        assert running.code(within=5) == 130
    assert running.header["ended"] == "complete"
    assert len(whole(running.records())) == 3
    assert "3 ok, 0 failed" in running.printed
    assert one_error(running) == "bench-client: interrupted while stopping sim"


_WHILE_REPORTING = """
import os, signal
from bench_client.cli import main
from bench_client.run import arm
write = arm.write_reports
def interrupted(*given):
    os.kill(os.getpid(), signal.SIGTERM)
    write(*given)
arm.write_reports = interrupted
main()
"""


def test_a_signal_while_the_reports_are_written_lets_them_be(tmp_path: Path) -> None:
    run = launched(tmp_path, count=3)
    with client(tmp_path, *run, program=_WHILE_REPORTING) as running:
        assert running.code() == 130
        running.leaves_nothing()
    assert running.header["ended"] == "complete"
    assert "3 ok, 0 failed" in running.printed
    assert (running.folder / "report.html").stat().st_size > 0
    assert one_error(running) == "bench-client: interrupted while the reports were written"


@pytest.mark.parametrize("twice", [False, True])
def test_a_signal_while_calibrating_loses_no_figure(tmp_path: Path, *, twice: bool) -> None:
    run = launched(tmp_path, "--calibrate", count=3)
    with client(tmp_path, *run) as running:
        running.until_said("calibrating the client")
        running.until(lambda: running.tree("bench_client.sim"))
        time.sleep(0.0 if twice else 1.2)  # of the 2 s that it takes; at first the engine starts
        running.signal(signal.SIGINT)
        if twice:
            time.sleep(0.1)
            running.signal(signal.SIGTERM)
        assert running.code() == 130
        running.leaves_nothing()
    assert running.header["ended"] == "complete"
    assert running.header["client"]["calibration"] is None
    assert len(whole(running.records())) == 3
    assert "3 ok, 0 failed" in running.printed
    assert (running.folder / "report.html").stat().st_size > 0
    assert one_error(running) == "bench-client: interrupted while calibrating the client for sim"
