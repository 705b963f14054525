"""What a server's teardown leaves behind is said, kept, and not measured beside."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.helpers import load, prompts
from tests.conftest import free_port

NVML = str(Path(__file__).parents[1] / "run" / "nvml_double")
# As the command, with less patience for memory that does not come back.
PROGRAM = (
    "from server_launchers import process; process.GPU_RELEASE_S = 0.3;"
    "from bench_client.cli import main; main()"
)
LEFT = "sim, stopped: GPU 0 has 19.8 GiB more in use than before"


def leaky(
    home: Path, command: str, *arguments: object, leak: str = "results/*/server.log"
) -> subprocess.CompletedProcess[str]:
    """A client on GPUs the first of which never gets back what the first server took."""
    given = (command, "--port", free_port(), "--launch-arg=--fixed", "--launch-arg=5:2", *arguments)
    double = {"PYTHONPATH": NVML, "NVML_DOUBLE_WATTS": "100", "NVML_DOUBLE_LEAK": leak}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, given)],
        cwd=home,
        env=os.environ | double,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def run(home: Path, *arms: str, repeat: int = 1) -> subprocess.CompletedProcess[str]:
    scenario = ("--scenario", prompts(home / "p.jsonl"), "--max-tokens", 5, "--no-calibrate")
    servers = [word for arm in arms for word in ("--server", arm)]
    return leaky(home, "run", *servers, "--repeat", repeat, *scenario)


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What is on stderr beside the progress."""
    return [line for line in done.stderr.splitlines() if line.startswith("bench-client: ")]


def test_nothing_is_launched_beside_what_is_left(tmp_path: Path) -> None:
    done = run(tmp_path, "sim", "sim-eagle3")
    assert done.returncode == 3
    refused = f"bench-client: sim-eagle3 was not launched: {LEFT}"
    assert said(done) == [f"bench-client: {LEFT}", refused]
    assert "results: results/" in done.stdout  # what was measured is reported
    (folder,) = (tmp_path / "results").iterdir()
    header = load(folder / "run.json")
    assert header["ended"] == "complete"
    assert header["server"]["teardown"] == [LEFT]
    assert load(folder / "summary.json")["requests"]["ok"] == 2


def test_after_the_last_server_it_is_no_failure(tmp_path: Path) -> None:
    done = run(tmp_path, "sim", repeat=2)
    assert done.returncode in {0, 1}, done.stderr  # a run this short may be invalid
    assert said(done) == [f"bench-client: {LEFT}"]
    (folder,) = (tmp_path / "results").iterdir()
    assert load(folder / "run.json")["server"]["teardown"] == [LEFT]


def test_a_launch_that_failed_keeps_it_too(tmp_path: Path) -> None:
    scenario = prompts(tmp_path / "p.jsonl")
    done = leaky(
        tmp_path, "run", "--server", "sim", "--launch-arg=--no-such-flag", "--scenario", scenario
    )
    assert done.returncode == 3
    assert f"bench-client: {LEFT}\n" in done.stderr
    (folder,) = (tmp_path / "results").iterdir()
    header = load(folder / "run.json")
    assert (header["ended"], header["server"]["teardown"]) == ("aborted", [LEFT])


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_server_launched_by_hand_says_it(tmp_path: Path, *, elsewhere: bool) -> None:
    leak = "other" if elsewhere else "own.log"
    done = leaky(
        tmp_path, "launch", "sim", "--log", "own.log", "--launch-arg=--no-such-flag", leak=leak
    )
    assert done.returncode == 3
    assert (LEFT in done.stderr) != elsewhere


def test_each_launch_by_hand_has_its_own_log(tmp_path: Path) -> None:
    ports = (free_port(), free_port())
    for port in ports:
        leaky(tmp_path, "launch", "sim", "--port", port, "--launch-arg=--no-such-flag")
    logs = sorted(tmp_path.glob("*.log"))
    assert logs == sorted(tmp_path / f"sim-{port}.log" for port in ports)
    assert all("--no-such-flag" in log.read_text() for log in logs)
