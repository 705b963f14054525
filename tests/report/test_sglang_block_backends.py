"""What sglang.bench_serving counts by backend and release, read in each of its releases.

Its newest release itself is asked in tests/engines/test_sglang_figures.py.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench_client.imports.files import import_file
from bench_client.measure.summary import summarize
from bench_client.records import Accept, Api, Events, Load, Run, Server
from bench_client.report.sglang_block import sglang_block
from bench_client.report.sglang_jsonl import sglang_jsonl
from bench_client.run.store import load_run
from tests.factories import header, plan, record

H200 = Path(__file__).parents[2] / "results" / "h200-rigged"
MS = 1_000_000
BY_TOKEN, BY_EVENT = f"{100 / 6:.2f}", "50.00"


def run_of(engine: str, api: Api, *, speculates: bool = True, **changes: Any) -> Run:
    """One answer: a token, 4 more 40 ms later, 2 more 60 ms later, out of two verify steps."""
    one = record(
        first_token_ns=100 * MS,
        last_token_ns=200 * MS,
        done_ns=210 * MS,
        output_tokens=7,
        events=Events((100 * MS, 140 * MS, 200 * MS), (1, 4, 2)),
        accept=Accept(source="payload", verify_steps=2) if speculates else None,
    )
    return Run(
        header=header(
            plan=plan(load=Load(kind="closed", concurrency=1), api=api),
            server=Server(name="arm", url="http://127.0.0.1:1", engine=engine),
        ),
        records=(msgspec.structs.replace(one, **changes),),
    )


def printed(run: Run, version: str = "0.5.23") -> dict[str, str]:
    block = sglang_block(run, summarize(run), version, strict=True)
    pairs = (line.partition(":") for line in block.splitlines() if ":" in line)
    return {label: value.strip() for label, _, value in pairs}


@pytest.mark.parametrize(
    ("engine", "api", "speculates", "version", "itl"),
    [
        ("sglang", "generate", True, "0.4.4", BY_TOKEN),
        ("sglang", "generate", False, "0.5.3", BY_TOKEN),
        ("sglang", "generate", True, "0.5.23", BY_TOKEN),
        ("sglang", "completions", True, "0.4.4", BY_EVENT),
        ("sglang", "completions", True, "0.5.4", BY_EVENT),
        ("sglang", "completions", True, "0.5.4.post1", BY_TOKEN),
        ("sglang", "completions", False, "0.5.23", BY_EVENT),
        ("sglang", "chat", True, "0.5.3", BY_EVENT),
        ("sglang", "chat", True, "0.5.6", BY_TOKEN),
        ("sglang", "chat", False, "0.5.6", BY_EVENT),
        ("vllm", "completions", True, "0.5.23", BY_EVENT),
        ("vllm", "chat", True, "0.5.23", BY_EVENT),
        ("transformers", "chat", False, "0.5.23", BY_EVENT),
    ],
)
def test_itl_is_by_token_where_that_release_has_it_so(
    engine: str, api: Api, speculates: bool, version: str, itl: str
) -> None:
    run = run_of(engine, api, speculates=speculates)
    assert printed(run, version)["Mean ITL (ms)"] == itl


@pytest.mark.parametrize("version", ["0.4.4", "0.5.3", "0.5.23"])
@pytest.mark.parametrize("api", ["generate", "completions", "chat"])
def test_accept_length_is_of_sglang_alone(api: Api, version: str) -> None:
    assert printed(run_of("sglang", api), version)["Accept length"] == "3.00"
    assert "Accept length" not in printed(run_of("sglang", api, speculates=False), version)
    assert "Accept length" not in printed(run_of("vllm", api), version)


@pytest.mark.parametrize(
    ("engine", "api", "peak"),
    [("sglang", "generate", "7.00"), ("sglang", "chat", "3.00"), ("vllm", "chat", "3.00")],
)
def test_the_fullest_second_is_of_what_the_stream_counted(engine: str, api: Api, peak: str) -> None:
    assert printed(run_of(engine, api))["Peak output token throughput (tok/s)"] == peak


def test_gaps_by_token_are_unknown_where_tokens_are() -> None:
    uncounted = Events((100 * MS, 140 * MS, 200 * MS), (1, None, 2))
    found = printed(run_of("sglang", "generate", events=uncounted))
    assert found["Mean ITL (ms)"] == found["Max ITL (ms)"] == "unknown"
    assert found["Peak output token throughput (tok/s)"] == "unknown"
    assert found["Peak concurrent requests"] == "1"
    chat = printed(run_of("sglang", "chat", events=uncounted))
    assert chat["Mean ITL (ms)"] == "unknown"
    assert chat["Peak output token throughput (tok/s)"] == "3.00"
    assert printed(run_of("vllm", "chat", events=uncounted))["Mean ITL (ms)"] == BY_EVENT


def test_an_upper_bound_is_no_accept_length() -> None:
    """The tool would have the server's own, which is not known here; gaps are by token with it."""
    run = run_of("sglang", "chat", speculates=False)
    server = msgspec.structs.replace(run.header.server, speculative={"speculative_num_steps": 3})
    run = msgspec.structs.replace(run, header=msgspec.structs.replace(run.header, server=server))
    found = summarize(run).speculation
    assert found is not None
    assert found.accept_length_source == "client_events"
    assert printed(run)["Accept length"] == "unknown"
    assert printed(run)["Mean ITL (ms)"] == BY_TOKEN
    assert json.loads(sglang_jsonl(run, summarize(run)))["accept_length"] is None


@pytest.mark.parametrize(
    ("label", "last_without", "first_with"),
    [
        ("Max request concurrency", "0.4.6.post3", "0.4.6.post4"),
        ("Total input text tokens", "0.5.3", "0.5.3.post1"),
        ("Total input vision tokens", "0.5.3", "0.5.3.post1"),
        ("Mean TPOT (ms)", "0.5.5.post1", "0.5.5.post2"),
        ("Peak concurrent requests", "0.5.5.post3", "0.5.6"),
        ("P90 E2E Latency (ms)", "0.5.7", "0.5.8"),
        ("P95 E2E Latency (ms)", "0.5.13.post1", "0.5.14"),
        ("P90 ITL (ms)", "0.5.13.post1", "v0.5.14rc0"),
    ],
)
def test_each_line_is_there_from_its_release_on(
    label: str, last_without: str, first_with: str
) -> None:
    run = run_of("sglang", "generate")
    assert label not in printed(run, last_without)
    assert label in printed(run, first_with)


@pytest.mark.parametrize(
    ("arm", "version", "itl", "peak", "accept"),
    [
        ("sglang-eagle3", "0.5.3", "14.87", None, "2.53"),
        ("sglang-eagle3", "0.5.23", "5.87", "88.00", "2.53"),
        ("vllm-eagle3", "0.5.3", "11.56", None, None),
        ("vllm-eagle3", "0.5.23", "11.56", "106.00", None),
    ],
)
def test_runs_on_an_h200(
    arm: str, version: str, itl: str, peak: str | None, accept: str | None
) -> None:
    (path,) = H200.glob(f"*prompts-{arm}")
    found = printed(load_run(path), version)
    assert found["Mean ITL (ms)"] == itl
    assert found.get("Peak output token throughput (tok/s)") == peak
    assert found.get("Accept length") == accept


def test_jsonl_follows_the_same_rules() -> None:
    of_vllm, of_sglang = run_of("vllm", "chat"), run_of("sglang", "chat")
    entry = json.loads(sglang_jsonl(of_vllm, summarize(of_vllm)))
    assert (entry["accept_length"], entry["mean_itl_ms"]) == (None, 50.0)
    entry = json.loads(sglang_jsonl(of_sglang, summarize(of_sglang)))
    assert (entry["accept_length"], entry["max_output_tokens_per_s"]) == (3.0, 3.0)
    assert entry["mean_itl_ms"] == pytest.approx(100 / 6)
    entry = json.loads(sglang_jsonl(of_sglang, summarize(of_sglang), "0.5.3", details=True))
    assert entry["mean_itl_ms"] == 50.0
    assert entry["itls"] == [pytest.approx([0.04, 0.06])]


def imported(changes: dict[str, Any]) -> Run:
    """The JSONL line of another tool's run, read."""
    run = run_of("sglang", "chat")
    entry = json.loads(sglang_jsonl(run, summarize(run))) | changes
    [found] = import_file("r.jsonl", json.dumps(entry))
    return found


def test_an_imported_figure_is_not_printed_for_another() -> None:
    by_token = imported({})
    assert printed(by_token)["Mean ITL (ms)"] == BY_TOKEN
    assert printed(by_token, "0.5.3")["Mean ITL (ms)"] == "unknown"
    by_event = imported({"accept_length": None, "mean_itl_ms": 50.0})
    assert printed(by_event)["Mean ITL (ms)"] == BY_EVENT
    assert "Accept length" not in printed(by_event)
    of_vllm = imported({"backend": "vllm-chat", "accept_length": 3.0, "mean_itl_ms": 50.0})
    assert printed(of_vllm)["Mean ITL (ms)"] == BY_EVENT
    assert "Accept length" not in printed(of_vllm)


def test_what_imported_requests_do_not_tell_is_as_their_tool_gave_it() -> None:
    """--output-details holds chunk gaps, and not how many tokens each chunk had."""
    details = {"input_lens": [10], "output_lens": [7], "ttfts": [0.1], "itls": [[0.04, 0.06]]}
    details |= {"generated_texts": ["x"], "errors": [""], "total_output_tokens_retokenized": 6}
    run = imported(details)
    assert len(run.records) == 1
    assert printed(run)["Mean ITL (ms)"] == BY_TOKEN
    assert printed(run)["Mean TTFT (ms)"] == "100.00"
    assert printed(run)["Total generated tokens"] == "7"
    assert printed(run)["Total generated tokens (retokenized)"] == "6"
