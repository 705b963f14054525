"""The main job against the embedded engine: launched, replayed, torn down, compared."""

import itertools
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cli.helpers import bench_client, folder, load, prompts, records
from tests.conftest import StartSim, free_port

FAST = ("--launch-arg=--step-ms", "--launch-arg=4", "--launch-arg=--verify-ms", "--launch-arg=8")

SUMMARY_KEYS = {
    *("requests", "duration_s", "input_tokens", "output_tokens", "throughput", "concurrency"),
    *("ttft_ms", "itl_ms", "chunk_gap_ms", "tpot_ms", "e2e_ms", "queue_ms", "tps_e2e"),
    *("tps_decode", "speculation", "telemetry", "calibration", "doubts", "verdict"),
}
RECORD_KEYS = {
    *("id", "prompt_index", "prompt_sha256", "repeat", "scheduled_ns", "sent_ns"),
    *("first_token_ns", "last_token_ns", "done_ns", "outcome", "failure", "finish_reason"),
    *("input_tokens", "output_tokens", "token_count_source", "stamps", "events", "reads"),
    *("accept", "output_sha256"),
}
STAT_KEYS = {"n", "mean", "sd", "ci95", "p50", "p90", "p95", "p99", "min", "max"}


def test_two_arms_end_with_the_comparison(tmp_path: Path) -> None:
    done = bench_client(
        *("--server", "sim", "--server", "sim-eagle3", "--concurrency", 1, "--max-tokens", 60),
        *("--scenario", prompts(tmp_path / "p.jsonl", 5), "--temperature", 0, *FAST),
        *("--port", free_port(), "--results", tmp_path / "results", "--no-calibrate"),
    )
    assert done.returncode == 0, done.stderr
    assert "comparison with sim" in done.stdout
    assert "faster than sim" in done.stdout
    plain, eagle = sorted((tmp_path / "results").iterdir(), key=lambda path: len(path.name))
    assert plain.name.endswith("-p-sim")
    assert eagle.name.endswith("-p-sim-eagle3")
    _contract(plain)
    _contract(eagle)
    told = load(eagle / "summary.json")["speculation"]
    sources = told["accept_length_sources"]
    assert sources["per_request"] == pytest.approx(sources["client_events"], rel=0.01)
    assert sources["metrics"] == pytest.approx(sources["client_events"], rel=0.05)
    greedy = [record["output_sha256"] for record in records(plain)]
    assert greedy == [record["output_sha256"] for record in records(eagle)]
    assert "all 5 greedy answers are the same" in done.stdout


def _contract(path: Path) -> None:
    run, summary, kept = load(path / "run.json"), load(path / "summary.json"), records(path)
    assert run["format"] == 1
    assert {"argv", "plan", "server", "environment", "client", "started_at"} <= run.keys()
    assert summary.keys() >= SUMMARY_KEYS
    for name in ("ttft_ms", "itl_ms", "chunk_gap_ms", "tpot_ms", "e2e_ms", "tps_decode"):
        assert summary[name].keys() >= STAT_KEYS
    assert summary["verdict"] != "invalid"
    assert "pooled" in summary["tps_e2e"]
    for record in kept:
        assert record.keys() >= RECORD_KEYS
        assert record["stamps"] == "kernel"
        assert record["token_count_source"] == "token_ids"
        assert sum(record["events"]["tokens"]) == record["output_tokens"] == 60
        instants = [record[key] for key in ("scheduled_ns", "sent_ns", "first_token_ns")]
        assert instants == sorted(instants)
    for name in ("report.md", "report.html", "server.log"):
        assert (path / name).stat().st_size > 0
    log = str(path / "server.log").encode()
    assert not [p for p in psutil.process_iter(["cmdline"]) if log.decode() in _line(p)]


def _line(process: psutil.Process) -> str:
    return " ".join(process.info["cmdline"] or [])


def _overlaps(kept: list[Any]) -> int:
    edges = [(record["sent_ns"], 1) for record in kept]
    edges += [(record["last_token_ns"], -1) for record in kept]
    peak = level = 0
    for _, step in sorted(edges):
        level += step
        peak = max(peak, level)
    return peak


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_closed_loop_keeps_exactly_that_many_in_flight(
    tmp_path: Path, start_sim: StartSim, concurrency: int
) -> None:
    url = start_sim("--fixed", "30:3")
    done = bench_client(
        *("--url", url, "--concurrency", concurrency, "--max-tokens", 20, "--ignore-eos"),
        *("--scenario", prompts(tmp_path / "p.jsonl", 6), "--results", tmp_path / "r"),
        "--no-calibrate",
    )
    assert done.returncode == 0, done.stderr
    kept = records(folder(tmp_path / "r"))
    assert _overlaps(kept) == concurrency
    summary = load(folder(tmp_path / "r") / "summary.json")
    assert summary["concurrency"]["peak"] == concurrency
    assert summary["concurrency"]["mean"] > 0.9 * concurrency
    assert [record["prompt_index"] for record in kept][:1] == [0]


def test_url_leaves_the_server_running(tmp_path: Path, start_sim: StartSim) -> None:
    url = start_sim("--fixed", "5:1")
    given = ("--scenario", prompts(tmp_path / "p.jsonl"), "--max-tokens", 3, "--no-calibrate")
    for results in ("a", "b"):
        named = ("--name", "mine", "--results", tmp_path / results)
        done = bench_client("--url", f"{url}/v1", *given, *named)
        assert done.returncode == 0, done.stderr
        assert folder(tmp_path / results).name.endswith("-p-mine")
    assert not (folder(tmp_path / "a") / "server.log").exists()


def test_repeats_and_sampling_reach_the_server(tmp_path: Path, start_sim: StartSim) -> None:
    url = start_sim("--fixed", "5:1")
    done = bench_client(
        *("--url", url, "--repeat", 3, "--max-tokens", 8, "--ignore-eos", "--save-text"),
        *("--scenario", prompts(tmp_path / "p.jsonl"), "--results", tmp_path / "r"),
        "--no-calibrate",
    )
    assert done.returncode == 0, done.stderr
    kept = records(folder(tmp_path / "r"))
    assert [(record["prompt_index"], record["repeat"]) for record in kept] == [
        *((0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2))
    ]
    # A seed of its own for each request: sampled answers to one prompt differ.
    assert len({record["output_text"] for record in kept}) == 6


@pytest.mark.parametrize("loop", [("--concurrency", 2), ("--request-rate", 4)])
def test_each_repeat_is_a_window_of_its_own_on_empty_caches(
    loop: tuple[str, int], tmp_path: Path, start_sim: StartSim
) -> None:
    url = start_sim("--prefix-cache", "--step-ms", "4")
    done = bench_client(
        *("--url", url, *loop, "--repeat", 3, "--max-tokens", 4, "--warmup", 1, "--no-calibrate"),
        *("--scenario", prompts(tmp_path / "p.jsonl", 4), "--results", tmp_path / "results"),
    )
    assert done.returncode == 0, done.stderr
    path = folder(tmp_path / "results")
    kept = records(path)
    by_repeat = [[each for each in kept if each["repeat"] == n] for n in range(3)]
    for before, after in itertools.pairwise(by_repeat):
        last = max(each["done_ns"] for each in before)
        assert all(last < each["scheduled_ns"] < last + 3e9 for each in after)
    assert [each["cached_tokens"] or 0 for each in kept] == [0] * 12
    spans = [
        max(each["done_ns"] for each in part) - min(each["sent_ns"] for each in part)
        for part in by_repeat
    ]
    if "--concurrency" in loop:
        assert load(path / "summary.json")["duration_s"] == pytest.approx(sum(spans) / 1e9)


def test_a_chain_carries_each_answer_on(tmp_path: Path, start_sim: StartSim) -> None:
    url = start_sim("--fixed", "5:1")
    done = bench_client(
        *("--url", url, "--scenario", "serial-chain", "--max-tokens", 6, "--ignore-eos"),
        *("--results", tmp_path / "r", "--no-calibrate"),
    )
    assert done.returncode == 0, done.stderr
    path = folder(tmp_path / "r")
    planned = [request["prompt_sha256"] for request in load(path / "run.json")["plan"]["requests"]]
    kept = records(path)
    assert len(kept) == 11
    assert kept[0]["prompt_sha256"] == planned[0]
    assert not {record["prompt_sha256"] for record in kept[1:]} & set(planned)
    for early, late in itertools.pairwise(kept):
        assert late["sent_ns"] > early["last_token_ns"]


def test_an_open_loop_shows_both_latencies(tmp_path: Path, start_sim: StartSim) -> None:
    url = start_sim("--fixed", "40:1")
    done = bench_client(
        *("--url", url, "--request-rate", 50, "--max-concurrency", 2, "--max-tokens", 10),
        *("--scenario", prompts(tmp_path / "p.jsonl", 12), "--results", tmp_path / "r"),
        *("--ignore-eos", "--no-calibrate"),
    )
    assert done.returncode == 0, done.stderr
    path = folder(tmp_path / "r")
    planned = {r["id"]: r["scheduled_ns"] for r in load(path / "run.json")["plan"]["requests"]}
    kept = records(path)
    assert {record["id"]: record["scheduled_ns"] for record in kept} == planned
    assert _overlaps(kept) == 2
    summary = load(path / "summary.json")
    assert summary["ttft_from_schedule_ms"]["mean"] > summary["ttft_ms"]["mean"] + 20
    assert summary["queue_ms"]["max"] > 20


def test_figures_stay_the_same_when_reported_again(tmp_path: Path, start_sim: StartSim) -> None:
    url = start_sim("--fixed", "5:1")
    done = bench_client(
        *("--url", url, "--scenario", prompts(tmp_path / "p.jsonl", 3), "--max-tokens", 9),
        *("--results", tmp_path / "r", "--no-calibrate", "--json"),
    )
    path = folder(tmp_path / "r")
    again = bench_client("report", path, "--json")
    assert again.stdout == done.stdout
    for form in ("--html", "--markdown"):
        assert "p0" in bench_client("report", path, form).stdout
