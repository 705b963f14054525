"""`vllm bench serve`: printed block and JSON (--save-result, --append-result, --save-detailed).

Definitions are those of vllm/benchmarks/serve.py in 0.32.
"""

from collections.abc import Mapping
from typing import Any

from bench_client.imports.as_run import Request, Source, Told
from bench_client.imports.bench import bench_run, column, load_of, number
from bench_client.imports.names import json_figures, per_event
from bench_client.imports.printed import Block
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
    return bench_run(told, source, figures)


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
        model=entry.get("model_id"),
        api="chat" if "chat" in str(entry.get("endpoint_type", "")) else "completions",
        load=load_of(_rate(entry.get("request_rate")), number(entry.get("max_concurrency"))),
        started_at=str(entry.get("date", "")),
        seconds=figures.get("duration_s"),
        definitions=DEFINITIONS,
        samples={} if requests else _latencies(entry),
    )
    return bench_run(told, source, figures, requests)


def _rate(value: object) -> float | None:
    """The rate is written "inf" when all requests go at once."""
    return number(float(value)) if isinstance(value, str) else number(value)


def _positions(entry: Mapping[str, Any]) -> dict[str, float | None]:
    """Acceptance by position is a fraction in the JSON and a percentage in print."""
    rates = entry.get("spec_decode_per_position_acceptance_rates") or ()
    return {f"speculation.per_position_pct.{i}": 100 * rate for i, rate in enumerate(rates)}


def _latencies(entry: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """Latencies stay in a result without --save-detailed; failed ones cannot be told there."""
    seconds = entry.get("latencies")
    if not seconds or entry.get("failed"):
        return {}
    return {"e2e_ms": tuple(1000 * value for value in seconds)}


def _requests(entry: Mapping[str, Any]) -> list[Request]:
    """The requests of --save-detailed, in seconds since the first arrival."""
    starts = entry.get("start_times")
    if not isinstance(starts, list):
        return []
    count = len(starts)
    names = ("ttfts", "itls", "latencies", "queue_times", "input_lens", "output_lens", "errors")
    columns = {name: column(entry, name, count) for name in (*names, "generated_texts")}
    arrivals = [
        start - (queued or 0.0)
        for start, queued in zip(starts, columns["queue_times"], strict=True)
    ]
    zero = min(arrivals, default=0.0)
    return [
        _request(
            {name: values[i] for name, values in columns.items()},
            starts[i] - zero,
            arrivals[i] - zero,
        )
        for i in range(count)
    ]


def _request(row: Mapping[str, Any], start: float, arrival: float) -> Request:
    gaps = row["itls"] or []
    ttft = row["ttfts"] or 0.0
    latency = ttft + sum(gaps) if row["latencies"] is None else row["latencies"]
    return Request(
        start=start,
        arrival=arrival,
        first=start + ttft,
        end=start + latency,
        input_tokens=row["input_lens"],
        output_tokens=row["output_lens"],
        count_source="final_usage",
        gaps=gaps,
        error=str(row["errors"] or ""),
        text=row["generated_texts"],
    )
