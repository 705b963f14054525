"""Readers of what is printed that end early, and streams that take nothing."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.helpers import BENCH_CLIENT, folder, load, prompts
from tests.cli.processes import PARALLEL, client, kinds, launched, whole
from tests.conftest import StartSim


def piped(arguments: tuple[object, ...], shell: str) -> subprocess.CompletedProcess[str]:
    """The command, `"$@"` in a line of bash."""
    command = ["bash", "-c", shell, "bash", *BENCH_CLIENT, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def run(url: str, home: Path) -> tuple[object, ...]:
    scenario = prompts(home / "p.jsonl", 6)
    more = ("--max-tokens", 4, "--no-calibrate", "--results", home / "r")
    return ("--url", url, "--scenario", scenario, *more)


# `true` ends at once and reads nothing, `head` reads one line.
@pytest.mark.parametrize(
    "shell",
    [
        '"$@" | head -1; exit ${PIPESTATUS[0]}',
        '"$@" | true; exit ${PIPESTATUS[0]}',
        '"$@" 2>&1 >/dev/null | head -1; exit ${PIPESTATUS[0]}',
        '"$@" >&-',
        '"$@" 2>&-',
    ],
)
def test_a_run_does_not_depend_on_its_readers(
    shell: str, tmp_path: Path, start_sim: StartSim
) -> None:
    done = piped(run(start_sim("--fixed", "30:5"), tmp_path), shell)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "Broken" not in done.stderr
    path = folder(tmp_path / "r")
    assert load(path / "run.json")["ended"] == "complete"
    assert load(path / "summary.json")["requests"]["ok"] == 6


def test_output_that_cannot_be_written_is_said(tmp_path: Path, start_sim: StartSim) -> None:
    done = piped(run(start_sim("--fixed", "5:1"), tmp_path), '"$@" >/dev/full')
    assert done.returncode == 1
    assert "cannot write to standard output: No space left" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    path = folder(tmp_path / "r")
    assert load(path / "summary.json")["requests"]["ok"] == 6
    for form in ("--json", "--html"):
        again = piped(("report", path, form), '"$@" >/dev/full')
        assert (again.returncode, len(again.stderr.splitlines())) == (1, 1), again.stderr
    assert piped(("report", path), '"$@" | true; exit ${PIPESTATUS[0]}').returncode == 0


def test_a_gate_fails_whoever_reads(tmp_path: Path, start_sim: StartSim) -> None:
    piped(run(start_sim("--fixed", "5:1"), tmp_path), '"$@"')
    path = folder(tmp_path / "r")
    gate = ("compare", path, path, "--gate", "tps_decode >= +50%")
    assert piped(gate, '"$@"').returncode == 1
    assert piped(gate, '"$@" | true; exit ${PIPESTATUS[0]}').returncode == 1


@pytest.mark.parametrize("more", [(), PARALLEL])
def test_ctrl_c_takes_the_reader_along(more: tuple[object, ...], tmp_path: Path) -> None:
    """As with `2>&1 | tee log` in a terminal: nobody reads any more when the run ends."""
    read, write = os.pipe()
    with client(tmp_path, *launched(tmp_path, *more), pipe=write) as running:
        os.close(write)
        running.until_records(4)
        os.close(read)
        running.signal(signal.SIGINT)
        assert running.code() == 130
        running.leaves_nothing()
    assert running.header["ended"] == "interrupted"
    kept = running.records()
    assert len(whole(kept)) >= 4
    assert set(kinds(kept)) <= {"interrupted"}
    assert load(running.folder / "summary.json")["requests"]["ok"] == len(whole(kept))
    assert (running.folder / "report.html").stat().st_size > 0
