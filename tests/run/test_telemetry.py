"""The sampler, in the process of its own that it has in a run, over a double of NVML."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench_client.run.environment import in_container
from bench_client.run.telemetry import sampling

DOUBLE = Path(__file__).parent / "nvml_double"


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("PYTHONPATH", str(DOUBLE))
    monkeypatch.setenv("NVML_DOUBLE_WATTS", "250")
    return monkeypatch


def rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def sampler(path: Path) -> psutil.Process:
    (found,) = (p for p in psutil.Process().children() if str(path) in p.cmdline())
    return found


def test_a_mark_is_written_when_it_returns(tmp_path: Path, nvml: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.jsonl"
    with sampling(path, {"client": os.getpid()}) as mark:
        before = time.time_ns()
        mark("begin")
        after = time.time_ns()
        (begin,) = rows(path)
        time.sleep(0.3)
        mark("end")
        end = rows(path)[-1]
    assert (begin["mark"], end["mark"]) == ("begin", "end")
    assert before < begin["at_unix_ns"] < after
    assert "machine" not in begin  # CPU rates need a second
    seconds = (end["at_unix_ns"] - begin["at_unix_ns"]) / 1e9
    grown = end["gpu"]["0"]["energy_j"] - begin["gpu"]["0"]["energy_j"]
    assert grown == pytest.approx(250 * seconds, abs=250 * 0.01)


def test_a_sample_of_two_gpus(tmp_path: Path, nvml: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.jsonl"
    nvml.setenv("NVML_DOUBLE_SERVER", str(path))  # the sampler itself is taken for the server
    nvml.setenv("NVML_DOUBLE_OTHER", "1")
    with sampling(path, {"client": os.getpid(), "server": os.getpid()}):
        time.sleep(1.8)
    sample = rows(path)[0]
    assert sample["machine"]["memory_used_gib"] > 0
    assert sample["client"]["memory_gib"] > 0
    first, second = sample["gpu"].values()
    assert (first["power_w"], first["sm_clock_mhz"], first["throttle_reasons"]) == (250, 1500, 4)
    assert (first["processes"], first["server_processes"]) == (2, 1)
    assert (second["processes"], second["server_processes"]) == (1, 0)
    assert first["other_processes"] == [f"{psutil.Process(1).name()} 1"]


def test_a_launched_server_is_no_part_of_the_client(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    busy = "bytearray(300 * 2**20)\nwhile True: pass"
    with (
        subprocess.Popen([sys.executable, "-c", f"held = {busy}"]) as server,
        sampling(path, {"client": os.getpid(), "server": server.pid}),
    ):
        time.sleep(3.5)
        server.kill()
    seen = rows(path)[-1]
    assert seen["server"]["memory_gib"] > 0.29
    assert seen["server"]["cpu_percent"] > 25  # of a core that others may want too
    assert seen["client"]["cpu_percent"] < seen["server"]["cpu_percent"]
    ours = psutil.Process().memory_info().rss / 2**30
    assert seen["client"]["memory_gib"] < ours + 0.25


def test_what_a_gpu_does_not_have_is_left_out(tmp_path: Path, nvml: pytest.MonkeyPatch) -> None:
    nvml.setenv(
        "NVML_DOUBLE_LACKS",
        "nvmlDeviceGetTotalEnergyConsumption,nvmlDeviceGetComputeRunningProcesses",
    )
    path = tmp_path / "t.jsonl"
    with sampling(path, {"client": os.getpid()}) as mark:
        mark("begin")
    (row,) = rows(path)
    assert row["gpu"]["0"]["power_w"] == 250
    assert not {"energy_j", "processes"} & row["gpu"]["0"].keys()


def test_the_gpus_here_say_nothing_of_a_server_elsewhere(
    tmp_path: Path, nvml: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.jsonl"
    with sampling(path, {"client": os.getpid()}, here=False) as mark:
        mark("begin")
    (row,) = rows(path)
    assert row.keys() == {"at_unix_ns", "mark"}


def test_a_container_is_told_by_its_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench_client.run.environment.CONTAINER_MARKS", (tmp_path / "mark",))
    assert not in_container()
    (tmp_path / "mark").touch()
    assert in_container()


def test_load_beside_a_server_elsewhere_is_all_foreign(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as burner:
        with sampling(path, {"client": os.getpid()}, here=False):
            time.sleep(1.8)
        with sampling(tmp_path / "unknown.jsonl", {"client": os.getpid()}):
            time.sleep(1.8)
        burner.kill()
    assert "gpu" not in rows(path)[0]
    # The burner is a child of ours; it is told apart from strangers, who may be there too.
    machine, client = rows(path)[0]["machine"], rows(path)[0]["client"]
    expected = machine["cpu_percent"] - client["cpu_percent"] / (psutil.cpu_count() or 1)
    if in_container():  # where the server may be in the one beside it
        assert "other_cpu_percent" not in machine
    else:
        assert machine["other_cpu_percent"] == pytest.approx(max(expected, 0), abs=0.1)
    # A server that is here and not known may be what keeps it busy.
    assert "other_cpu_percent" not in rows(tmp_path / "unknown.jsonl")[0]["machine"]


def test_a_run_goes_on_without_its_sampler(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with sampling(path, {"client": os.getpid()}) as mark:
        mark("begin")
        killed = sampler(path)
        killed.kill()
        killed.wait(5)
        began = time.monotonic()
        mark("end")
        assert time.monotonic() - began < 1
    assert [row["mark"] for row in rows(path)] == ["begin"]


def test_a_sampler_that_hangs_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench_client.run.telemetry.PATIENCE_S", 0.3)
    path = tmp_path / "t.jsonl"
    began = time.monotonic()
    with sampling(path, {"client": os.getpid()}) as mark:
        stopped = sampler(path)
        stopped.send_signal(signal.SIGSTOP)
        mark("begin")
    assert 0.6 < time.monotonic() - began < 5
    assert not stopped.is_running()
