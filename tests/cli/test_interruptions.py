"""Ctrl-C and SIGTERM at every stage of a run: what was measured is kept, nothing runs on."""

import signal
import sys
import time
from pathlib import Path

import pytest

from tests.cli.helpers import load
from tests.cli.processes import PARALLEL, STUCK, client, kinds, launched, launched_pair, whole

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
    assert "Traceback" not in running.said


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
    assert "Traceback" not in running.said


# Python sees the SIGTERM and ends; the shell around it does not.
_STUBBORN = """#!/bin/sh
trap '' TERM
{python} "$@"
sleep 60
"""


def test_a_signal_while_the_server_is_torn_down(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(_STUBBORN.format(python=sys.executable))
    python.chmod(0o755)
    run = launched(tmp_path, "--engine-python", python, count=3)
    with client(tmp_path, *run) as running:
        running.until_said("stopping sim")
        running.signal(signal.SIGINT)
        assert running.code(within=5) == 130
    assert running.header["ended"] == "complete"
    assert len(whole(running.records())) == 3
    assert "3 ok, 0 failed" in running.printed
    assert "Traceback" not in running.said


def test_a_signal_while_calibrating_loses_no_figure(tmp_path: Path) -> None:
    run = launched(tmp_path, "--calibrate", count=3)
    with client(tmp_path, *run) as running:
        running.until_said("calibrating the client")
        running.until(lambda: running.tree("bench_client.sim"))
        time.sleep(1.2)  # of the 2 s that it takes
        running.signal(signal.SIGINT)
        assert running.code() == 130
        running.leaves_nothing()
    assert running.header["ended"] == "complete"
    assert running.header["client"]["calibration"] is None
    assert len(whole(running.records())) == 3
    assert "3 ok, 0 failed" in running.printed
