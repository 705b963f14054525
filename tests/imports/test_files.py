"""Result files: JSON and JSONL of the four tools."""

import json
from typing import Any

import pytest

from bench_client.imports.files import import_file
from bench_client.records import Accept, Events, Load, RequestRecord, Run
from tests.imports.fixtures import imported, runs, text


def sglang_line(**changes: Any) -> dict[str, Any]:
    """A line as 0.5.23 writes it: two requests, the second of which failed."""
    return {
        "tag": "night",
        "backend": "sglang",
        "dataset_name": "sharegpt",
        "request_rate": float("inf"),
        "max_concurrency": 1,
        "server_info": {"version": "0.5.23", "served_model_name": "m"},
        "duration": 3.0,
        "completed": 1,
        "total_input_tokens": 10,
        "total_input_text_tokens": 10,
        "total_output_tokens": 6,
        "total_output_tokens_retokenized": 6,
        "output_throughput": 2.0,
        "mean_e2e_latency_ms": 1000.0,
        "std_e2e_latency_ms": 0.0,
        "p95_itl_ms": 150.0,
        "mean_itl_ms": 100.0,
        "median_ttft_ms": 500.0,
        "accept_length": 2.5,
    } | changes


DETAILS = {
    "input_lens": [10, 20],
    "output_lens": [6, 0],
    # The native backend repeats a chunk's gap: 3 tokens in 0.3 s, then 2 in 0.2125 s.
    "ttfts": [0.5, 0.0],
    "itls": [[0.1, 0.1, 0.1, 0.10625, 0.10625], []],
    "generated_texts": ["answer", ""],
    "errors": ["", "Traceback\nValueError: no\n"],
}


def one(entry: dict[str, Any]) -> Run:
    [run] = import_file("r.jsonl", json.dumps(entry))
    return run


def seconds(*instants: int | None) -> list[float | None]:
    return [None if instant is None else instant / 1e9 for instant in instants]


def test_sglang_line_without_details() -> None:
    run = one(sglang_line())
    found = imported(run)
    assert (found.tool, found.version) == ("sglang.bench_serving", "0.5.23")
    assert (run.header.server.model, run.header.plan.load.concurrency) == ("m", 1)
    assert run.records == ()
    expected = {
        "requests.ok": 1,
        "duration_s": 3,
        "throughput.output_tok_per_s": 2,
        "e2e_ms.mean": 1000,
        "e2e_ms.std": 0,
        "itl_ms.p95": 150,
        "ttft_ms.p50": 500,
        "speculation.accept_length": 2.5,
    }
    assert {name: found.figures.get(name) for name in expected} == expected
    assert "e2e_ms.sd" not in found.figures  # theirs divides by n


def test_sglang_details_become_requests_with_their_events() -> None:
    good, bad = one(sglang_line(**DETAILS)).records
    assert seconds(good.sent_ns, good.first_token_ns, good.last_token_ns) == [0, 0.5, 1.0125]
    assert good.events == Events((500_000_000, 800_000_000, 1_012_500_000), (1, 3, 2))
    assert (good.input_tokens, good.output_tokens) == (10, 6)
    assert (good.token_count_source, good.output_text) == ("native", "answer")
    assert (bad.outcome, bad.output_tokens, bad.first_token_ns) == ("failed", None, None)
    assert bad.failure is not None
    assert bad.failure.message == "ValueError: no"


def test_sglang_starts_are_replayed_in_a_closed_loop() -> None:
    entry = sglang_line(
        max_concurrency=2,
        input_lens=[1] * 4,
        output_lens=[2] * 4,
        ttfts=[1.0, 3.0, 1.0, 1.0],
        itls=[[1.0], [1.0], [1.0], [1.0]],
        errors=[""] * 4,
    )
    run = one(entry)
    # The first slot is free at 2 s, then both at 4 s.
    assert seconds(*(record.sent_ns for record in run.records)) == [0, 0, 2, 4]
    assert any("when a slot falls free" in line for line in imported(run).findings)


def test_sglang_starts_are_unknown_at_a_rate() -> None:
    run = one(sglang_line(request_rate=2.5, max_concurrency=None, **DETAILS))
    assert run.header.plan.load == Load(kind="open", request_rate=2.5)
    assert {record.sent_ns for record in run.records} == {0}
    assert any("which is no schedule" in line for line in imported(run).findings)


def test_sglang_oai_gaps_are_of_events_of_unknown_size() -> None:
    run = one(sglang_line(backend="sglang-oai-chat", **DETAILS))
    assert run.records[0].events.tokens == (None,) * 6
    assert run.records[0].token_count_source is None  # it may be the requested length
    assert run.header.plan.api == "chat"


def test_several_lines_are_several_runs_and_a_cut_last_line_is_left_out() -> None:
    lines = "\n".join(json.dumps(sglang_line(tag=name)) for name in ("a", "b"))
    assert len(import_file("r.jsonl", lines)) == 2
    assert len(import_file("r.jsonl", lines[:-20])) == 1


def vllm_result(**changes: Any) -> dict[str, Any]:
    return {
        "date": "20261130-153440",
        "endpoint_type": "openai-chat",
        "backend": "openai-chat",
        "label": None,
        "model_id": "m",
        "tokenizer_id": "m",
        "num_prompts": 2,
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": 1,
        "duration": 4.0,
        "completed": 1,
        "failed": 1,
        "total_input_tokens": 10,
        "total_output_tokens": 6,
        "request_throughput": 0.25,
        "output_throughput": 1.5,
        "total_token_throughput": 4.0,
        "latencies": [1.1, 0.0],
        "queue_times": [0.0, 1.2],
        "mean_ttft_ms": 500.0,
        "p99.9_itl_ms": 300.0,
        "mean_e2el_including_client_queue_ms": 1100.0,
        "spec_decode_acceptance_rate": 50.0,
        "spec_decode_acceptance_length": 2.5,
        "spec_decode_num_drafts": 4,
        "spec_decode_draft_tokens": 12,
        "spec_decode_accepted_tokens": 6,
        "spec_decode_per_position_acceptance_rates": [0.75, 0.5, 0.25],
    } | changes


VLLM_DETAILS = {
    "input_lens": [10, 20],
    "output_lens": [6, 0],
    "start_times": [1000.0, 1001.2],
    "ttfts": [0.5, 0.0],
    "itls": [[0.3, 0.2], []],
    "generated_texts": ["answer", ""],
    "errors": ["", "Connection reset"],
}


def test_vllm_result_without_details() -> None:
    run = one(vllm_result())
    figures = imported(run).figures
    assert run.header.plan.load == Load(kind="closed", concurrency=1)
    assert run.header.started_at == "20261130-153440"
    assert run.records == ()
    expected = {
        "requests.failed": 1,
        "ttft_ms.mean": 500,
        "chunk_gap_ms.p99.9": 300,
        "e2e_from_schedule_ms.mean": 1100,
        "speculation.accept_length": 2.5,
        "speculation.verify_steps": 4,
        "speculation.per_position_pct.2": 25,
    }
    assert {name: figures.get(name) for name in expected} == expected
    assert imported(run).samples == {}  # a failed request's latency is among them


def test_vllm_latencies_stay_where_all_went_well() -> None:
    run = one(vllm_result(failed=0, latencies=[1.1, 1.3]))
    assert imported(run).samples == {"e2e_ms": (1100.0, 1300.0)}


def test_vllm_details_become_requests() -> None:
    run = one(vllm_result(**VLLM_DETAILS))
    good, bad = run.records
    assert seconds(good.scheduled_ns, good.sent_ns, good.first_token_ns) == [0, 0, 0.5]
    # The latency of the result, not the sum of the gaps.
    assert seconds(good.last_token_ns) == [1.1]
    assert good.events == Events((500_000_000, 800_000_000, 1_000_000_000), (None,) * 3)
    assert (good.output_tokens, good.token_count_source) == (6, "final_usage")
    # It was due at 0 too, and waited 1.2 s for the client's slot.
    assert seconds(bad.scheduled_ns, bad.sent_ns) == [0, 1.2]
    assert (bad.outcome, bad.last_token_ns) == ("failed", None)


def test_vllm_appended_results() -> None:
    text_ = json.dumps(vllm_result()) + "\n" + json.dumps(vllm_result(request_rate=2.0))
    first, second = import_file("r.json", text_)
    assert second.header.plan.load == Load(kind="open", request_rate=2.0, max_concurrency=1)
    assert first.header.plan.load.kind == "closed"


def test_spec_against_plain_of_one_file() -> None:
    plain = sglang_line(accept_length=None, output_throughput=8.0)
    _, spec = import_file("r", json.dumps(plain) + "\n" + json.dumps(sglang_line()))
    assert any("0.250 times the 8.00" in finding for finding in imported(spec).findings)


def test_guidellm_report() -> None:
    one_stream, two_streams, all_failed = runs("tools/guidellm-0.8.1.json")
    assert imported(one_stream).label == "concurrent 1"
    assert (imported(one_stream).version, one_stream.header.server.model) == ("0.8.1", "mock")
    assert two_streams.header.plan.load == Load(kind="closed", concurrency=2)
    figures = imported(one_stream).figures
    assert (figures["requests.ok"], figures["input_tokens"], figures["output_tokens"]) == (
        4,
        80,
        48,
    )
    assert figures["e2e_ms.mean"] == pytest.approx(167.8, abs=0.1)
    first = one_stream.records[0]
    assert ttft_ms(first) == pytest.approx(269.33, abs=0.01)
    assert (first.output_tokens, first.token_count_source) == (12, "final_usage")
    assert (first.done_ns or 0) > (first.last_token_ns or 0)
    sent = [record.sent_ns or 0 for record in two_streams.records]
    assert sent == sorted(sent)
    assert [record.outcome for record in all_failed.records] == ["failed"] * 5
    assert imported(all_failed).figures["requests.failed"] == 5


def ttft_ms(record: RequestRecord) -> float:
    return ((record.first_token_ns or 0) - (record.sent_ns or 0)) / 1e6


def test_guidellm_passes_on_what_vllm_said_of_speculation() -> None:
    report = json.loads(text("tools/guidellm-0.8.1.json"))
    report["benchmarks"][0]["requests"]["successful"][0]["response_metrics"] = {
        "speculative_decoding": {
            "num_spec_steps": 5,
            "num_accepted_draft_tokens": 7,
            "num_draft_tokens": 15,
            "acceptance_histogram": [1, 1, 3, 0],
        }
    }
    run = import_file("g.json", json.dumps(report))[0]
    assert run.records[0].accept == Accept(
        source="vllm",
        verify_steps=5,
        accepted_tokens=7,
        draft_tokens=15,
        histogram=(1, 1, 3, 0),
    )


def test_guidellm_report_of_another_version_is_refused() -> None:
    report = {"metadata": {"version": 1}, "benchmarks": []}
    with pytest.raises(ValueError, match=r"g\.json: a GuideLLM report of version 1"):
        import_file("g.json", json.dumps(report))


def test_aiperf_summary() -> None:
    [run] = runs("tools/aiperf-0.13.0.json")
    found = imported(run)
    assert (found.tool, found.version, run.header.server.model) == ("aiperf", "0.13.0", "mock")
    assert run.header.plan.load == Load(kind="closed", concurrency=1)
    expected = {
        "requests.ok": 3,
        "requests.failed": 1,
        "input_tokens": 60,
        "output_tokens": 36,
        "duration_s": 1.396262912,
        "ttft_ms.p50": 44.39081,
        "e2e_ms.max": 1174.189539,
        "tpot_ms.mean": 5.443833636,
        "tps_decode.mean": 184.2033239,
        "throughput.output_tok_per_s": 25.48154482,
        "concurrency.mean": 0.9753278852,
    }
    assert {name: found.figures[name] for name in expected} == pytest.approx(expected)


def test_aiperf_records() -> None:
    [run] = runs("tools/aiperf-0.13.0-records.jsonl")
    assert [record.outcome for record in run.records] == ["ok", "ok", "ok", "failed"]
    first = run.records[0]
    assert ttft_ms(first) == pytest.approx(1109.786491)
    assert len(first.events.at_ns) == 12
    # Its gaps end where its latency does.
    assert first.events.at_ns[-1] == pytest.approx(first.last_token_ns, abs=100)
    assert (first.output_tokens, first.token_count_source) == (12, "final_usage")
    assert (first.scheduled_ns, (first.sent_ns or 0) > 0) == (0, True)
    failure = run.records[3].failure
    assert failure is not None
    assert "fail_after_requests" in failure.message


def test_aiperf_counts_its_own_tokenizer_only_without_usage() -> None:
    lines = [json.loads(line) for line in text("tools/aiperf-0.13.0-records.jsonl").splitlines()]
    lines[0]["metrics"]["output_sequence_length"]["value"] = 13
    del lines[1]["metrics"]["usage_completion_tokens"]
    lines[2]["metadata"]["benchmark_phase"] = "warmup"
    [run] = import_file("p.jsonl", "\n".join(map(json.dumps, lines)))
    counts = [(record.output_tokens, record.token_count_source) for record in run.records]
    assert counts == [(12, "final_usage"), (12, "tokenizer"), (None, None)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": 1}', r"^x: JSON that no known tool writes; this reads sglang"),
        ("{broken", r"^x: line 1 is not JSON"),
        ('{"a": 1}\n{oops\n{"a": 1}', r"^x: line 2 is not JSON"),
    ],
)
def test_json_that_cannot_be_read_is_refused_in_one_line(content: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        import_file("x", content)
    assert "\n" not in str(caught.value)
