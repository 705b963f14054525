"""Wrong input: one line that says what to do, and the right exit code."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.helpers import BENCH_CLIENT, bench_client, folder, one_line, prompts
from tests.conftest import StartSim, free_port


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "--server NAME"),
        (("--server", "sgalng"), 2, "did you mean sglang"),
        (("--server", "sim", "--server", "sim"), 2, "--repeat"),
        (("--server", "sim", "--scenario", "nine"), 2, "eleven-prompts"),
        (("--server", "sim", "--scenario", "/none.jsonl"), 2, "/none.jsonl"),
        (("--server", "sim", "--concurrency", "0"), 2, "--concurrency"),
        (("--server", "sim", "--burstiness", "2"), 2, "--request-rate"),
        (("--server", "sim", "--name", "mine"), 2, "--url"),
        (("--server", "sim", "--request-rate", "2", "--concurrency", "2"), 2, "open"),
        (("--server", "sim", "--scenario", "serial-chain", "--concurrency", "2"), 2, "chained"),
        (("--server", "sim", "--extra-body", "[1]"), 2, "JSON object"),
        (("--server", "sim", "--header", "nonsense"), 2, "Name: value"),
        (("--server", "sim", "--rate-limit", "5/day"), 2, "N/s"),
        (("--server", "sim", "--workers", "2"), 2, "--concurrency 2"),
        (("--server", "sim", "--api-key-env", "NO_SUCH_VARIABLE"), 2, "NO_SUCH_VARIABLE"),
        (("--server", "vllm", "--engine-python", "/none/python"), 2, "/none/python"),
        (("--url", "127.0.0.1:8000"), 2, "http://"),
        (("--server", "sim", "--temperature", "nan"), 2, "--temperature"),
        (("--server", "sim", "--request-rate", "1e-300"), 2, "--request-rate"),
        (("--url", "http://127.0.0.1:1", "--ca", "/none.pem"), 2, "/none.pem"),
        (("--server", "sim", "--name", "\udcff"), 2, "UTF-8"),
        (("launch", "sim", "--log", "/tmp"), 3, "cannot start it with its log in /tmp"),
        (("report", "/etc/hostname"), 2, "not a results folder"),
        (("report", "/tmp"), 2, "not a results folder"),
        (("compare", "/none", "/none"), 2, "/none is not a results folder"),
        (("import", "/none"), 2, "bench-client: cannot read /none: No such file"),
        (("import", "/dev/null"), 2, "nothing to import"),
        (("run", "--server", "sim", "--results", "/proc/none"), 2, "give another folder"),
        (("--server", "sim", "--url", "http://127.0.0.1:1"), 2, "not both"),
        (("compare", "/tmp"), 2, "two runs"),
        (("compare", "/a", "/b", "--gate", "tps >= 1"), 2, "tps"),
        (("launch", "nothing"), 2, "nothing"),
        (("--server", "sim", "--presets", "/none.toml"), 2, "presets /none.toml: No such file"),
        (("frobnicate",), 2, "frobnicate"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], code: int, said: str, tmp_path: Path) -> None:
    takes = not arguments or arguments[0].startswith("-")
    taken = ("--results", str(tmp_path / "results")) if takes else ()
    done = bench_client(*arguments, *taken)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("run.json"))


def test_an_unwritable_file_of_another_tool(tmp_path: Path, start_sim: StartSim) -> None:
    done = bench_client(
        *("--url", start_sim("--fixed", "5:1"), "--max-tokens", 2, "--no-calibrate", "--quiet"),
        *("--scenario", prompts(tmp_path / "p.jsonl"), "--results", tmp_path / "r"),
    )
    assert done.returncode in {0, 1}, done.stderr
    for option in ("--vllm-json", "--sglang-jsonl"):
        done = bench_client("report", folder(tmp_path / "r"), option, "/none/x.json")
        assert done.returncode == 2
        assert one_line(done) == (
            "bench-client: cannot write /none/x.json: No such file or directory"
        )


def test_an_engine_that_is_missing_cannot_be_launched(tmp_path: Path) -> None:
    """Not wrong usage, as a Python that is not there."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    given = ("--engine-python", bare, "--results", tmp_path / "r")
    done = bench_client("--server", "vllm", *given)
    assert done.returncode == 3
    assert "vllm is not installed in" in one_line(done)
    assert not (tmp_path / "r").exists()


def test_nothing_listens(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    done = bench_client("--url", url, "--results", tmp_path)
    assert done.returncode == 1
    assert url in one_line(done)
    assert "is the server up" in one_line(done)
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_the_server_lacks(tmp_path: Path, start_sim: StartSim) -> None:
    url = start_sim("--model", "served")
    done = bench_client("--url", url, "--model", "other", "--results", tmp_path)
    assert done.returncode == 1
    assert "'other'" in one_line(done)
    assert "served" in one_line(done)
    assert "--served-model-name" in one_line(done)


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = bench_client("--server", "sim", "--port", port, "--results", tmp_path)
    assert done.returncode == 3
    assert f"port {port} is in use" in one_line(done)
    assert "--port" in one_line(done)


def test_a_results_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = bench_client("--server", "sim", "--results", tmp_path / "file")
    assert done.returncode == 2
    assert "--results" in one_line(done)


def test_a_server_that_dies_at_its_start_says_why(tmp_path: Path) -> None:
    done = bench_client(
        *("--server", "sim", "--launch-arg=--accept-en", "--launch-arg=7"),
        *("--port", free_port(), "--results", tmp_path),
    )
    assert done.returncode == 3
    assert "accept" in one_line(done)
    assert "server.log" in one_line(done)


@pytest.mark.parametrize(("soft", "hard", "code"), [(80, 400, 0), (80, 150, 1)])
def test_more_connections_than_open_files(
    soft: int, hard: int, code: int, tmp_path: Path, start_sim: StartSim
) -> None:
    limited = f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"'
    done = subprocess.run(
        [
            *("bash", "-c", limited, "bash", *BENCH_CLIENT, "--url", start_sim()),
            *("--scenario", str(prompts(tmp_path / "p.jsonl", 100)), "--concurrency", "100"),
            *("--max-tokens", "3", "--warmup", "0", "--no-calibrate"),
            *("--results", str(tmp_path / "results")),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    if code:
        assert "ulimit -Hn" in one_line(done)


def test_a_calibration_that_cannot_connect_so_often() -> None:
    limited = 'ulimit -Sn 100 && ulimit -Hn 200 && exec "$@"'
    command = ["bash", "-c", limited, "bash", *BENCH_CLIENT, "calibrate", "--concurrency", "300"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "cannot calibrate: 300 connections" in one_line(done)


def test_long_names_make_a_folder_all_the_same(tmp_path: Path, start_sim: StartSim) -> None:
    done = bench_client(
        *("--url", start_sim("--fixed", "5:1"), "--name", "名" * 200, "--max-tokens", 2),
        *("--scenario", prompts(tmp_path / f"{'n' * 200}.jsonl"), "--no-calibrate"),
        *("--results", tmp_path / "r"),
    )
    assert done.returncode == 0, done.stderr


def test_an_api_key_is_asked_for_and_never_written(tmp_path: Path, start_sim: StartSim) -> None:
    url = start_sim("--api-key", "sesame-1234")
    refused = bench_client("--url", url, "--results", tmp_path / "a")
    assert refused.returncode == 1
    assert "--api-key-env" in one_line(refused)
    done = bench_client(
        *("--url", url, "--api-key-env", "BENCH_KEY", "--header", "X-Extra: sesame-1234"),
        *("--scenario", prompts(tmp_path / "p.jsonl"), "--max-tokens", 3, "--no-calibrate"),
        *("--results", tmp_path / "b"),
        BENCH_KEY="sesame-1234",
    )
    assert done.returncode == 0, done.stderr
    written = [path for path in (tmp_path / "b").rglob("*") if path.is_file()]
    assert len(written) >= 5
    assert not [path for path in written if b"sesame-1234" in path.read_bytes()]
    assert "sesame-1234" not in done.stdout + done.stderr
