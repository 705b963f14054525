"""The sglang block against what sglang itself prints, and against its own import."""

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench_client.imports.files import import_file
from bench_client.measure.summary import summarize
from bench_client.records import Events, Failure, Load, RequestRecord, Run, Server
from bench_client.report.bench_figures import bench_figures
from bench_client.report.sglang_block import sglang_block
from bench_client.report.sglang_jsonl import sglang_jsonl
from tests.factories import header, plan, record

GOLDEN = Path(__file__).parents[1] / "fixtures" / "golden"
MS = 1_000_000


def of_streams(*streams: RequestRecord, **changes: Any) -> Run:
    made = plan(load=Load(kind="closed", concurrency=2), api="generate")
    server = Server(name="sglang", url="http://127.0.0.1:1", engine="sglang")
    return Run(
        header=msgspec.structs.replace(header(plan=made, server=server), **changes),
        records=streams,
    )


def stream(index: int, sent_ms: int, gaps_ms: tuple[int, ...], tokens: int = 2) -> RequestRecord:
    """First token 100 ms after the send, then events of `tokens` each, the end 10 ms later."""
    at = [sent_ms + 100]
    for gap in gaps_ms:
        at.append(at[-1] + gap)
    return record(
        id=f"r{index}",
        prompt_index=index,
        scheduled_ns=sent_ms * MS,
        sent_ns=sent_ms * MS,
        first_token_ns=at[0] * MS,
        last_token_ns=at[-1] * MS,
        done_ns=(at[-1] + 10) * MS,
        output_tokens=1 + tokens * len(gaps_ms),
        events=Events(tuple(t * MS for t in at), (1,) + (tokens,) * len(gaps_ms)),
    )


def failed(index: int, sent_ms: int) -> RequestRecord:
    return record(
        id=f"r{index}",
        prompt_index=index,
        sent_ns=sent_ms * MS,
        first_token_ns=None,
        last_token_ns=None,
        done_ns=(sent_ms + 5) * MS,
        outcome="failed",
        failure=Failure("reset", "connection reset"),
        output_tokens=None,
        events=Events(),
    )


# Two requests at once and one after them, which fails: 0.605 s in all.
RUN = of_streams(
    stream(0, 0, (40, 60, 100)),
    stream(1, 0, tuple(range(1, 41, 2))),
    failed(2, 600),
    duration_ns=605 * MS,
)


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("sglang_*.txt")), ids=lambda file: file.stem)
def test_block_is_what_that_version_prints(file: Path) -> None:
    golden = file.read_text(encoding="utf-8")
    _, version, _ = file.stem.split("_")
    # The newest form holds every line; where a version prints less, its own figures will do.
    [run] = import_file(file.name, golden)
    assert sglang_block(run, summarize(run), version, strict=True) == golden


@pytest.mark.parametrize(
    ("version", "like"),
    [
        ("0.4.5", "0.4.4"),
        ("0.5.9", "0.5.8"),
        ("1.0.0", "0.5.23"),
        ("v0.5.8", "0.5.8"),
        ("0.5.6.post2", "0.5.6"),
        ("v0.5.9rc1", "0.5.8"),
        ("0.5.9.dev3+g1a2b3c", "0.5.8"),
        ("0.5.5+cu128", "0.5.5"),
    ],
)
def test_a_version_between_forms_prints_like_the_older(version: str, like: str) -> None:
    summary = summarize(RUN)
    assert sglang_block(RUN, summary, version) == sglang_block(RUN, summary, like)


@pytest.mark.parametrize(
    "version", ["0.4.3", "v0.4.3.post1", "new", "v", "0.5.x", "0.5.8 or so", "0.5.٨"]
)
def test_a_version_that_is_not_known_is_refused(version: str) -> None:
    with pytest.raises(ValueError, match="sglang"):
        sglang_block(RUN, summarize(RUN), version)


def lines(block: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in block.splitlines() if ":" in line)
    return {label: value.strip() for label, _, value in pairs}


def test_figures_by_hand() -> None:
    found = lines(sglang_block(RUN, summarize(RUN), strict=True))
    # Latencies to the end of the response: 310 and 510 ms.
    assert found["Mean E2E Latency (ms)"] == "410.00"
    assert found["P90 E2E Latency (ms)"] == "490.00"  # of two values, by numpy
    assert found["Concurrency"] == f"{0.820 / 0.605:.2f}"
    # Gaps by token: twice each of 20, 30, 50, and of 0.5, 1.5, ... 19.5.
    assert found["Mean ITL (ms)"] == f"{600 / 46:.2f}"
    assert found["Median ITL (ms)"] == "11.50"
    assert found["Max ITL (ms)"] == "50.00"
    assert found["Mean TPOT (ms)"] == f"{(210 / 6 + 410 / 40) / 2:.2f}"
    assert found["Peak output token throughput (tok/s)"] == "48.00"
    assert found["Peak concurrent requests"] == "2"
    assert found["Total generated tokens"] == "48"
    assert found["Output token throughput (tok/s)"] == f"{48 / 0.605:.2f}"
    assert (found["Successful requests"], found["Max request concurrency"]) == ("2", "2")
    assert "Accept length" not in found


def test_own_lines_follow_unless_strict() -> None:
    summary = summarize(RUN)
    strict, full = sglang_block(RUN, summary, strict=True), sglang_block(RUN, summary)
    assert full.startswith(strict)
    own = lines(full.removeprefix(strict))
    assert own["Failed requests"] == "1"
    assert own["  reset"] == "1"
    assert own["Verdict"] == summary.verdict
    assert float(own["Decoding concurrency"]) == pytest.approx(0.6 / 0.605, abs=0.005)
    assert float(own["Mean queue time (ms)"]) == 0


def test_block_reads_back_to_the_same_numbers() -> None:
    summary = summarize(RUN)
    [back] = import_file("block.txt", sglang_block(RUN, summary))
    assert back.header.imported is not None
    figures = bench_figures(RUN, summary, "sglang")
    read = back.header.imported.figures
    assert len(read) > 30
    for name in read.keys() - {"concurrency.decoding_mean"}:
        assert read[name] == pytest.approx(figures[name], abs=0.0051), name
    again = summarize(back)
    assert again.output_tokens == summary.output_tokens
    assert again.ttft_ms.mean == summary.ttft_ms.mean
    assert back.header.plan.load == RUN.header.plan.load


def test_all_failed_is_reported_not_a_crash() -> None:
    run = of_streams(failed(0, 0), failed(1, 10), duration_ns=500 * MS)
    found = lines(sglang_block(run, summarize(run)))
    assert (found["Successful requests"], found["Failed requests"]) == ("0", "2")
    assert found["Mean E2E Latency (ms)"] == "0.00"


def test_unknown_token_counts_are_said_to_be_unknown() -> None:
    uncounted = msgspec.structs.replace(stream(0, 0, (40, 60)), output_tokens=None)
    run = of_streams(uncounted, stream(1, 0, (20,)), duration_ns=800 * MS)
    found = lines(sglang_block(run, summarize(run), strict=True))
    assert found["Total generated tokens"] == "unknown"
    assert found["Output token throughput (tok/s)"] == "unknown"
    assert found["Mean TTFT (ms)"] == "100.00"


def test_backend_and_rate_of_an_open_loop_chat() -> None:
    load = Load(kind="open", request_rate=4.0)
    run = of_streams(stream(0, 0, (40,)), plan=plan(load=load, api="chat"), duration_ns=MS * 900)
    block = sglang_block(run, summarize(run), strict=True)
    assert "Backend:                                 sglang-oai-chat\n" in block
    assert "Traffic request rate:                    4.0       \n" in block
    assert "Max request concurrency:                 not set   \n" in block


KEYS_0_5_23 = """tag backend dataset_name request_rate max_concurrency sharegpt_output_len
random_input_len random_output_len random_range_ratio server_info duration completed
total_input_tokens total_input_text_tokens total_input_vision_tokens total_output_tokens
total_output_tokens_retokenized request_throughput input_throughput output_throughput
total_throughput mean_e2e_latency_ms median_e2e_latency_ms std_e2e_latency_ms p90_e2e_latency_ms
p95_e2e_latency_ms p99_e2e_latency_ms mean_ttft_ms median_ttft_ms std_ttft_ms p90_ttft_ms
p95_ttft_ms p99_ttft_ms mean_tpot_ms median_tpot_ms std_tpot_ms p90_tpot_ms p95_tpot_ms p99_tpot_ms
mean_itl_ms median_itl_ms std_itl_ms p90_itl_ms p95_itl_ms p99_itl_ms concurrency accept_length
max_output_tokens_per_s max_concurrent_requests"""
KEYS_0_5_3 = """backend dataset_name request_rate max_concurrency sharegpt_output_len
random_input_len random_output_len random_range_ratio duration completed total_input_tokens
total_output_tokens total_output_tokens_retokenized request_throughput input_throughput
output_throughput mean_e2e_latency_ms median_e2e_latency_ms std_e2e_latency_ms p99_e2e_latency_ms
mean_ttft_ms median_ttft_ms std_ttft_ms p99_ttft_ms mean_tpot_ms median_tpot_ms std_tpot_ms
p99_tpot_ms mean_itl_ms median_itl_ms std_itl_ms p95_itl_ms p99_itl_ms concurrency accept_length"""


@pytest.mark.parametrize(("version", "keys"), [("0.5.23", KEYS_0_5_23), ("0.5.3", KEYS_0_5_3)])
def test_jsonl_has_that_versions_keys_in_order(version: str, keys: str) -> None:
    line = sglang_jsonl(RUN, summarize(RUN), version)
    assert line.count("\n") == 1
    assert list(json.loads(line)) == keys.split()


def test_jsonl_values() -> None:
    entry = json.loads(sglang_jsonl(RUN, summarize(RUN)))
    assert entry["request_rate"] == math.inf
    assert entry["std_e2e_latency_ms"] == 100  # divided by n
    assert (entry["completed"], entry["total_output_tokens"]) == (2, 48)
    assert "ttfts" not in entry


def test_jsonl_details_read_back_as_the_same_requests() -> None:
    summary = summarize(RUN)
    [back] = import_file("r.jsonl", sglang_jsonl(RUN, summary, details=True))
    for mine, theirs in zip(RUN.records, back.records, strict=True):
        assert theirs.outcome == mine.outcome
        assert theirs.output_tokens == mine.output_tokens
        assert theirs.events.tokens == mine.events.tokens[: len(theirs.events.tokens)]
        if mine.outcome == "ok":
            assert list(theirs.events.at_ns) == pytest.approx(list(mine.events.at_ns), abs=10)
    assert back.records[2].failure == Failure("reported", "connection reset")


def test_what_an_import_does_not_know_is_unknown() -> None:
    # vLLM's progress bar gives no first token and no event.
    line = "[00:27<00:00, 27.20s/it, est. speed input: 103.04 toks/s, output: 42.86 toks/s]"
    [run] = import_file("n", line)
    found = lines(sglang_block(run, summarize(run), strict=True))
    assert (found["Backend"], found["Total generated tokens"]) == ("vllm-chat", "1166")
    assert found["Mean E2E Latency (ms)"].startswith("2720")
    unknown = {"Mean TTFT (ms)", "Mean TPOT (ms)", "Max ITL (ms)", "Peak concurrent requests"}
    assert {found[label] for label in unknown} == {"unknown"}
