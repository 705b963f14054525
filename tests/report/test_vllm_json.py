"""vLLM's JSON against its own import and against values by hand."""

import json
from typing import Any

import msgspec
import pytest

from bench_client.imports.files import import_file
from bench_client.measure.summary import summarize
from bench_client.records import Accept, Events, Failure, Imported, Load, RequestRecord, Run, Server
from bench_client.report.vllm_json import vllm_json
from tests.factories import header, plan, record

MS = 1_000_000


def stream(index: int, sent_ms: int, **changes: Any) -> RequestRecord:
    """Due at 0, sent later; first token after 100 ms, then 3 tokens after 60 ms and 2 after 30."""
    at = tuple((sent_ms + offset) * MS for offset in (100, 160, 190))
    made = record(
        id=f"r{index}",
        prompt_index=index,
        scheduled_ns=0,
        sent_ns=sent_ms * MS,
        first_token_ns=at[0],
        last_token_ns=at[-1],
        done_ns=at[-1] + 7 * MS,
        output_tokens=6,
        output_text="text",
        events=Events(at, (1, 3, 2)),
        accept=Accept(source="payload", verify_steps=2, accepted_tokens=3, draft_tokens=6),
    )
    return msgspec.structs.replace(made, **changes)


FAILED = stream(
    2,
    400,
    outcome="failed",
    failure=Failure("http_500", "Internal Server Error"),
    first_token_ns=None,
    last_token_ns=None,
    output_tokens=None,
    events=Events(),
    accept=None,
)


def run_of(*records: RequestRecord) -> Run:
    load = Load(kind="open", request_rate=8.0, max_concurrency=1)
    server = Server(name="vllm-eagle3", url="http://127.0.0.1:1", engine="vllm", model="Qwen/Q")
    head = header(
        plan=plan(load=load),
        server=server,
        started_at="2026-11-30T15:34:40+00:00",
        duration_ns=600 * MS,
    )
    return Run(header=head, records=records)


RUN = run_of(stream(0, 0), stream(1, 200), FAILED)


def written(run: Run, *, details: bool = False) -> dict[str, Any]:
    text = vllm_json(run, summarize(run), details=details)
    assert text.count("\n") == 1
    return dict(json.loads(text))


def test_values_by_hand() -> None:
    entry = written(RUN)
    expected = {
        "date": "20261130-153440",
        "endpoint_type": "openai-chat",
        "label": "vllm-eagle3",
        "model_id": "Qwen/Q",
        "num_prompts": 3,
        "request_rate": 8.0,
        "max_concurrency": 1,
        "duration": 0.6,
        "completed": 2,
        "failed": 1,
        "total_input_tokens": 20,
        "total_output_tokens": 12,
        "output_throughput": 20.0,
        "mean_ttft_ms": 100.0,
        "mean_e2el_ms": 190.0,  # to the last token
        "mean_itl_ms": 45.0,  # one value an event
        "p99_itl_ms": 60.0,
        "mean_tpot_ms": 18.0,
        "mean_client_queue_time_ms": 100.0,
        "std_client_queue_time_ms": 100.0,  # divided by n
        "mean_e2el_including_client_queue_ms": 290.0,
        "p99_e2el_including_client_queue_ms": 388.0,
        "latencies": [0.19, 0.19, 0.0],  # of all, a failed one's is 0
        "queue_times": [0.0, 0.2, 0.4],
        "spec_decode_num_drafts": 4,
        "spec_decode_draft_tokens": 12,
        "spec_decode_accepted_tokens": 6,
        "spec_decode_acceptance_length": 2.5,
        "spec_decode_acceptance_rate": 50.0,
    }
    for key, value in expected.items():
        assert entry[key] == pytest.approx(value), key
    assert not entry.keys() & {"ttfts", "start_times", "input_lens"}


@pytest.mark.parametrize(
    ("load", "queue", "with_queue"),
    [
        (Load(kind="open", request_rate=8.0, max_concurrency=1), True, True),
        (Load(kind="open", request_rate=8.0), False, False),
        (Load(kind="open"), False, False),
        (Load(kind="closed", concurrency=4), True, False),
    ],
)
def test_queueing_is_there_where_vllm_gives_it(load: Load, queue: bool, with_queue: bool) -> None:
    """vllm/benchmarks/serve.py: under a cap; from the arrival at a finite rate too."""
    entry = written(msgspec.structs.replace(RUN, header=header(plan=plan(load=load))))
    assert ("mean_client_queue_time_ms" in entry) == queue
    assert ("mean_e2el_including_client_queue_ms" in entry) == with_queue
    keys = list(entry)
    assert keys.index("total_token_throughput") + 1 == keys.index("latencies")
    assert keys.index("queue_times") + 1 == keys.index("max_output_tokens_per_s")


def test_an_import_without_requests_has_the_latencies_that_were_kept() -> None:
    entry = written(run_of(stream(0, 0), stream(1, 200)))
    [back] = import_file("r.json", json.dumps(entry))
    again = written(back)
    assert again["latencies"] == pytest.approx([0.19, 0.19])
    assert again["queue_times"] is None


def test_all_at_once_is_the_word_inf() -> None:
    closed = plan(load=Load(kind="closed", concurrency=4))
    run = msgspec.structs.replace(RUN, header=header(plan=closed))
    entry = written(run)
    assert (entry["request_rate"], entry["max_concurrency"]) == ("inf", 4)


def test_no_speculation_is_told_where_one_request_lacks_it() -> None:
    entry = written(run_of(stream(0, 0), stream(1, 200, accept=None)))
    assert not [key for key in entry if key.startswith("spec_decode")]


def test_details_read_back_as_the_same_requests() -> None:
    summary = summarize(RUN)
    [back] = import_file("r.json", vllm_json(RUN, summary, details=True))
    assert back.header.plan.load == RUN.header.plan.load
    for mine, theirs in zip(RUN.records, back.records, strict=True):
        assert (theirs.outcome, theirs.output_tokens) == (mine.outcome, mine.output_tokens)
        for name in ("scheduled_ns", "sent_ns", "first_token_ns", "last_token_ns"):
            assert getattr(theirs, name) == pytest.approx(getattr(mine, name), abs=10), name
        assert list(theirs.events.at_ns) == pytest.approx(list(mine.events.at_ns), abs=10)
    assert back.records[2].failure == Failure("reported", "Internal Server Error")
    again = summarize(back)
    assert again.ttft_ms.mean == pytest.approx(summary.ttft_ms.mean)
    assert again.output_tokens == summary.output_tokens
    assert again.requests.failed == 1


def test_aggregates_read_back_to_the_same_numbers() -> None:
    entry = written(RUN)
    [back] = import_file("r.json", json.dumps(entry))
    assert back.header.imported is not None
    figures = back.header.imported.figures
    assert figures["chunk_gap_ms.mean"] == pytest.approx(45)
    assert figures["queue_ms.mean"] == pytest.approx(100)
    assert figures["speculation.accept_length"] == 2.5


def test_all_failed() -> None:
    entry = written(run_of(FAILED))
    assert (entry["completed"], entry["failed"], entry["mean_ttft_ms"]) == (0, 1, 0.0)
    assert "NaN" not in json.dumps(entry)


def test_an_import_that_does_not_keep_waiting_has_no_queue_times() -> None:
    load = Load(kind="open", request_rate=8.0, max_concurrency=1)
    at_once = [stream(i, 200 * i, scheduled_ns=200 * i * MS) for i in range(3)]
    kept = Run(header=header(plan=plan(load=load)), records=tuple(at_once), telemetry=())
    of_a_tool = msgspec.structs.replace(kept.header, imported=Imported(tool="other"))
    for found, queue in ((kept, 0.0), (msgspec.structs.replace(kept, header=of_a_tool), None)):
        entry = json.loads(vllm_json(found, summarize(found)))
        assert entry["queue_times"] == (None if queue is None else [queue] * 3)
        assert entry["mean_client_queue_time_ms"] == queue
        assert entry["mean_ttft_ms"] == 100.0


def counted(run: Run, engine: str, **grown: float) -> Run:
    """Counters that stood at 100 before."""
    names = {name: f"vllm:spec_decode_num_{name}_total" for name in grown}
    server = msgspec.structs.replace(
        run.header.server,
        engine=engine,
        counters_before=dict.fromkeys(names.values(), 100.0),
        counters_after={names[name]: 100.0 + value for name, value in grown.items()},
    )
    return msgspec.structs.replace(run, header=msgspec.structs.replace(run.header, server=server))


def test_speculation_is_the_growth_of_the_counters() -> None:
    untold = run_of(stream(0, 0, accept=None), stream(1, 200, accept=None), FAILED)
    entry = written(counted(untold, "vllm", drafts=10, draft_tokens=30, accepted_tokens=12))
    assert entry["spec_decode_acceptance_length"] == pytest.approx(2.2)
    assert entry["spec_decode_acceptance_rate"] == pytest.approx(40)
    assert entry["spec_decode_num_drafts"] == 10
    entry = written(counted(RUN, "vllm", drafts=10, draft_tokens=30, accepted_tokens=12))
    assert entry["spec_decode_num_drafts"] == 10  # not the 4 that the requests were told of
    none = written(counted(untold, "vllm", drafts=0, draft_tokens=0, accepted_tokens=0))
    assert not [key for key in none if key.startswith("spec_decode")]


def test_the_tool_knows_no_speculation_but_vllms() -> None:
    entry = written(counted(RUN, "sglang"))
    assert not [key for key in entry if key.startswith("spec_decode")]


def test_speculation_of_an_import_is_kept() -> None:
    entry = written(RUN)
    [back] = import_file("r.json", json.dumps(entry))
    again = written(back)
    assert {key: value for key, value in again.items() if key.startswith("spec_decode")} == {
        key: pytest.approx(value) for key, value in entry.items() if key.startswith("spec_decode")
    }


def test_in_a_closed_loop_all_arrive_as_it_begins() -> None:
    """vllm/benchmarks/serve.py takes the arrival as it makes the tasks, before its semaphore."""
    later = [stream(i, 200 * i, scheduled_ns=(200 * i - 1) * MS) for i in range(1, 4)]
    closed = plan(load=Load(kind="closed", concurrency=1))
    entry = written(Run(header=header(plan=closed), records=tuple(later)))
    assert entry["queue_times"] == pytest.approx([0.001, 0.201, 0.401])
    assert entry["mean_client_queue_time_ms"] == pytest.approx(201)
    again = [msgspec.structs.replace(each, repeat=i // 2) for i, each in enumerate(later)]
    entry = written(Run(header=header(plan=closed), records=tuple(again)))
    assert entry["queue_times"] == pytest.approx([0.001, 0.201, 0.001])


def test_a_stream_that_broke_keeps_what_had_come() -> None:
    broken = stream(1, 200, outcome="failed", failure=Failure("reset", "reset by peer"))
    entry = written(run_of(stream(0, 0), broken), details=True)
    assert entry["ttfts"] == pytest.approx([0.1, 0.1])
    assert entry["itls"][1] == pytest.approx([0.06, 0.03])
    assert (entry["output_lens"], entry["latencies"]) == ([6, 0], pytest.approx([0.19, 0]))
    assert entry["generated_texts"] == ["text", ""]
    assert entry["mean_ttft_ms"] == 100.0
