"""Energy and memory through a whole run: a double of NVML, and the start of real engines' logs."""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cli.helpers import bench_client, folder, load, prompts
from tests.conftest import StartSim, free_port

TESTS = Path(__file__).parents[1]
NVML = str(TESTS / "run" / "nvml_double")
SGLANG = str(TESTS / "cli" / "engine_doubles")
WATTS = 250
SIM_STEP = ("--launch-arg=--step-ms", "--launch-arg=10")


def energy(path: Path) -> Any:
    return load(path / "summary.json")["telemetry"]["gpu"]["energy"]


def test_two_arms_side_by_side(tmp_path: Path) -> None:
    done = bench_client(
        *("--server", "sglang", "--server", "sglang-eagle3", "--engine-python", sys.executable),
        *("--scenario", prompts(tmp_path / "p.jsonl", 4), "--max-tokens", 60, "--ignore-eos"),
        *("--temperature", 0, "--port", free_port(), "--no-calibrate", "--results", tmp_path / "r"),
        PYTHONPATH=f"{NVML}:{SGLANG}",
        HOME=str(tmp_path),  # the double's --help is kept there
        NVML_DOUBLE_WATTS=str(WATTS),
        NVML_DOUBLE_SERVER="sglang.launch_server",
        NVML_DOUBLE_OTHER=str(os.getpid()),
    )
    assert done.returncode == 0, done.stderr
    plain, eagle = sorted((tmp_path / "r").iterdir(), key=lambda path: len(path.name))
    for path in (plain, eagle):
        summary, found = load(path / "summary.json"), energy(path)
        # The first GPU alone, from the first request sent to the last one done.
        assert (found["gpus"], found["source"]) == (["0"], "counter")
        assert found["j"] == pytest.approx(WATTS * summary["duration_s"], rel=0.01)
        assert found["j_per_output_token"] == pytest.approx(found["j"] / 240)
        ours = f"{psutil.Process().name()} {os.getpid()}"
        assert summary["telemetry"]["gpu"]["0"]["other_processes"] == [ours]
        assert f"shared with {ours}" in (path / "report.md").read_text()
    memory = [load(path / "run.json")["server"]["memory"] for path in (plain, eagle)]
    assert [each["weights_gib"] for each in memory] == [0.02, 15.28]
    assert [each["draft_weights_gib"] for each in memory] == [None, 2.23]
    ratio = energy(eagle)["j_per_output_token"] / energy(plain)["j_per_output_token"]
    _shown(done.stdout, ratio)


def _shown(printed: str, ratio: float) -> None:
    arm, _, comparison = printed.partition("comparison with sglang")
    said = " ".join(arm.split())
    assert "weights 0.02 GiB, KV cache 0.06 GiB for 16,384 tokens" in said
    assert f"{WATTS} W on average, by the energy counter of GPU 0" in said
    assert "throttled in 100% of the samples (sw power cap 100%)" in said
    rows = [tuple(line.split()[1:]) for line in comparison.splitlines() if "sglang-eagle3 " in line]
    assert ("15.28", "2.23", "64.16", "467,169", "1.78", "3.88", "53.02") in rows
    assert any(f"{ratio:.2f}x" in row and f"{WATTS}" in row for row in rows)


def test_power_samples_where_there_is_no_counter(tmp_path: Path) -> None:
    port = free_port()
    done = bench_client(
        *("--server", "sim", "--max-tokens", 120, "--ignore-eos", "--no-calibrate"),
        *("--scenario", prompts(tmp_path / "p.jsonl", 2), "--port", port),
        *("--results", tmp_path / "r", *SIM_STEP),
        PYTHONPATH=NVML,
        NVML_DOUBLE_WATTS=str(WATTS),
        NVML_DOUBLE_SERVER=f"bench_client.sim --host 127.0.0.1 --port {port}",
        NVML_DOUBLE_LACKS="nvmlDeviceGetTotalEnergyConsumption",
    )
    assert done.returncode == 0, done.stderr
    found = energy(folder(tmp_path / "r"))
    assert found["source"] == "power"
    seconds = load(folder(tmp_path / "r") / "summary.json")["duration_s"]
    assert found["j"] == pytest.approx(WATTS * seconds, rel=0.01)


def test_no_word_of_energy_or_memory_without_a_gpu(tmp_path: Path, start_sim: StartSim) -> None:
    done = bench_client(
        *("--url", start_sim("--fixed", "5:1"), "--max-tokens", 8, "--no-calibrate"),
        *("--scenario", prompts(tmp_path / "p.jsonl"), "--results", tmp_path / "r"),
        NVML_DOUBLE_WATTS=str(WATTS),
        PYTHONPATH=NVML,  # with two GPUs, on which nothing is
    )
    assert done.returncode == 0, done.stderr
    path = folder(tmp_path / "r")
    assert "energy" not in load(path / "summary.json")["telemetry"].get("gpu", {})
    assert load(path / "run.json")["server"]["memory"] is None
    for text in (done.stdout, (path / "report.md").read_text(), (path / "report.html").read_text()):
        assert "J/output token" not in text
        assert "Memory on one GPU" not in text


def test_strangers_beside_a_server_that_ran_before(tmp_path: Path, start_sim: StartSim) -> None:
    url = start_sim("--fixed", "20:20")
    burner = [sys.executable, "-c", "while True: pass"]
    with ExitStack() as burning:
        burners = [burning.enter_context(subprocess.Popen(burner)) for _ in os.sched_getaffinity(0)]
        done = bench_client(
            *("--url", url, "--max-tokens", 60, "--ignore-eos", "--no-calibrate", "--warmup", 0),
            *("--scenario", prompts(tmp_path / "p.jsonl"), "--results", tmp_path / "r"),
        )
        for each in burners:
            each.kill()
    assert done.returncode == 0, done.stderr
    summary = load(folder(tmp_path / "r") / "summary.json")
    assert summary["telemetry"]["server"]["memory_gib"]["mean"] > 0  # found by its port
    assert "busy_machine" in {doubt["code"] for doubt in summary["doubts"]}
