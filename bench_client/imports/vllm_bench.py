"""`vllm bench serve`: printed block and JSON (--save-result, --append-result, --save-detailed).

Definitions are those of vllm/benchmarks/serve.py in 0.32.
"""

from collections.abc import Mapping
from typing import Any

from bench_client.imports.as_run import Request, Source, Told
from bench_client.imports.bench import bench_run, labelled, load_of
from bench_client.imports.names import json_figures, per_event
from bench_client.imports.printed import Block
from bench_client.imports.values import column, gap_lists, number, numbers, rate_of, whole, word
from bench_client.records import Run

TOOL = "vllm bench serve"

DEFINITIONS = {
    "ttft_ms": "to the first event with choices, the role-only one of a chat included",
    "e2e_ms": "to the last event with choices",
    "chunk_gap_ms": "gaps between events, whatever their tokens; printed as ITL",
    "percentiles": "numpy's, linear, of all values; std divides by n",
    "peak_output_events_per_s": "events, not tokens, in the fullest second",
    "peak_requests_in_one_second": "requests that touch one second, at the same time or not",
    "speculation.accept_length": "1 + accepted / drafts from /metrics before and after the run",
}


def block_run(block: Block, source: Source) -> Run:
    """A printed block as a run: aggregates only."""
    figures = per_event(block.figures())
    told = Told(
        tool=TOOL,
        engine="vllm",
        load=load_of(
            block.setting("request rate configured (rps)"),
            block.setting("maximum request concurrency"),
        ),
        seconds=figures.get("duration_s"),
        definitions=DEFINITIONS,
    )
    return bench_run(told, source, figures, findings=block.findings())


def is_json(entry: Mapping[str, Any]) -> bool:
    """Whether a JSON object is its result file."""
    return "total_token_throughput" in entry and "tokenizer_id" in entry


def json_run(entry: Mapping[str, Any], source: Source) -> Run:
    """A result file as a run; with requests where it was written by --save-detailed."""
    figures = per_event(json_figures(entry)) | _positions(entry)
    requests = _requests(entry)
    told = Told(
        tool=TOOL,
        engine="vllm",
        model=word(entry.get("model_id")),
        api="chat" if "chat" in str(entry.get("endpoint_type", "")) else "completions",
        load=load_of(rate_of(entry.get("request_rate")), number(entry.get("max_concurrency"))),
        started_at=str(entry.get("date", "")),
        seconds=figures.get("duration_s"),
        definitions=DEFINITIONS,
        samples={} if requests else _latencies(entry),
    )
    source = labelled(source, told, figures, word(entry.get("label")))
    return bench_run(told, source, figures, requests)


def _positions(entry: Mapping[str, Any]) -> dict[str, float | None]:
    """Acceptance by position is a fraction in the JSON and a percentage in print."""
    rates = entry.get("spec_decode_per_position_acceptance_rates")
    known = [number(rate) for rate in rates] if isinstance(rates, list) else []
    return {
        f"speculation.per_position_pct.{i}": None if rate is None else 100 * rate
        for i, rate in enumerate(known)
    }


def _latencies(entry: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """Latencies stay in a result without --save-detailed; failed ones cannot be told there."""
    seconds = entry.get("latencies")
    if not isinstance(seconds, list) or not seconds or entry.get("failed"):
        return {}
    known = [number(value) for value in seconds]
    found = tuple(1000 * value for value in known if value is not None)
    return {"e2e_ms": found} if len(found) == len(known) else {}


def _requests(entry: Mapping[str, Any]) -> list[Request]:
    """The requests of --save-detailed, in seconds since the first arrival."""
    if not isinstance(entry.get("start_times"), list):
        return []
    count = len(entry["start_times"])
    starts = numbers(entry, "start_times", count)
    waits = numbers(entry, "queue_times", count)
    arrivals = [
        None if start is None else start - (wait or 0.0)
        for start, wait in zip(starts, waits, strict=True)
    ]
    zero = min((arrival for arrival in arrivals if arrival is not None), default=0.0)
    names = ("ttfts", "latencies", "input_lens", "output_lens")
    columns: dict[str, list[Any]] = {name: numbers(entry, name, count) for name in names}
    columns["itls"] = gap_lists(entry, "itls", count)
    columns |= {name: column(entry, name, count) for name in ("errors", "generated_texts")}
    return [
        _request(
            {name: values[i] for name, values in columns.items()},
            0.0 if start is None else start - zero,
            0.0 if arrival is None else arrival - zero,
        )
        for i, (start, arrival) in enumerate(zip(starts, arrivals, strict=True))
    ]


def _request(row: Mapping[str, Any], start: float, arrival: float) -> Request:
    gaps, ttft, latency = row["itls"], row["ttfts"], row["latencies"]
    if latency is None and ttft is not None and gaps is not None:
        latency = ttft + sum(gaps)
    return Request(
        start=start,
        arrival=arrival,
        first=None if ttft is None else start + ttft,
        end=None if latency is None else start + latency,
        input_tokens=whole(row["input_lens"]),
        output_tokens=whole(row["output_lens"]),
        count_source="final_usage",
        gaps=gaps,
        error=str(row["errors"] or ""),
        text=word(row["generated_texts"]),
    )
