"""A run's figures as sglang.bench_serving and `vllm bench serve` define them.

They differ from docs/method.md: percentiles are numpy's of however few values, std divides by n,
and both count by means of what they print. Names are those of imported figures.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from bench_client.measure.figures import Summary
from bench_client.measure.timeline import chunk_gaps_ms, itl_ms, ok_records, queues_known
from bench_client.records import RequestRecord, Run

Figures = dict[str, float | None]
Tool = Literal["sglang", "vllm"]
FloatArray = npt.NDArray[np.float64]

PERCENTILES = (50, 90, 95, 99)


def latency_s(record: RequestRecord, tool: Tool) -> float | None:
    """To the last line of the stream (sglang), or to the last token (vLLM)."""
    end = record.done_ns if tool == "sglang" else record.last_token_ns
    return None if end is None or record.sent_ns is None else (end - record.sent_ns) / 1e9


def ttft_s(record: RequestRecord) -> float | None:
    """From the send to the first token."""
    if record.first_token_ns is None or record.sent_ns is None:
        return None
    return (record.first_token_ns - record.sent_ns) / 1e9


def _waited_s(record: RequestRecord) -> float | None:
    """From when it was due to the send."""
    return None if record.sent_ns is None else (record.sent_ns - record.scheduled_ns) / 1e9


def gaps_s(record: RequestRecord, tool: Tool) -> list[float]:
    """What they call ITLs: sglang's one a token where its number is known, else one an event."""
    counted = tool == "sglang" and None not in record.events.tokens
    values = itl_ms(record) if counted else chunk_gaps_ms(record)
    return [value / 1e3 for value in values.tolist()]


def _tpot_s(record: RequestRecord, tool: Tool) -> float | None:
    latency, ttft, tokens = latency_s(record, tool), ttft_s(record), record.output_tokens
    if latency is None or ttft is None or tokens is None or tokens < 2:
        return None
    return (latency - ttft) / (tokens - 1)


def _distribution(name: str, values_s: Iterable[float | None], *, empty: float | None) -> Figures:
    values = np.array([value for value in values_s if value is not None]) * 1e3
    statistics = ("mean", "std", "max", *(f"p{q}" for q in PERCENTILES))
    if not len(values):
        return dict.fromkeys((f"{name}.{statistic}" for statistic in statistics), empty)
    found = [float(values.mean()), float(values.std()), float(values.max())]
    found += np.percentile(values, PERCENTILES).tolist()
    return {f"{name}.{key}": value for key, value in zip(statistics, found, strict=True)}


def _fullest_second(
    records: Sequence[RequestRecord], tool: Tool
) -> tuple[float | None, float | None]:
    """Most gap entries, and most requests seen, in any second since the first send."""
    known = [
        (record.sent_ns / 1e9, ttft, latency, gaps_s(record, tool))
        for record in records
        if record.sent_ns is not None
        and (ttft := ttft_s(record)) is not None
        and (latency := latency_s(record, tool)) is not None
    ]
    if len(known) != len(records):
        return None, None
    if not known:
        return 0.0, 0.0
    zero = min(sent for sent, *_ in known)
    seconds = int(np.ceil(max(sent + latency for sent, _, latency, _ in known) - zero)) + 1
    tokens, requests = np.zeros(seconds), np.zeros(seconds)
    for sent, ttft, latency, gaps in known:
        at = sent + ttft - zero + np.cumsum([0.0, *gaps])
        buckets = at.astype(np.int64)
        np.add.at(tokens, buckets[(buckets >= 0) & (buckets < seconds)], 1)
        requests[int(sent - zero) : int(sent + latency - zero) + 1] += 1
    return float(tokens.max()), float(requests.max())


def _per_second(amount: float | None, seconds: float | None) -> float | None:
    return None if amount is None or not seconds else amount / seconds


def _totals(summary: Summary) -> Figures:
    seconds = summary.duration_s
    inputs, outputs = summary.input_tokens, summary.output_tokens
    total = None if inputs is None or outputs is None else inputs + outputs
    return {
        "requests.ok": float(summary.requests.ok),
        "requests.failed": float(summary.requests.failed),
        "duration_s": seconds,
        "input_tokens": inputs,
        "input_text_tokens": inputs,
        "input_vision_tokens": 0.0,
        "output_tokens": outputs,
        "output_tokens_retokenized": outputs,
        "throughput.request_per_s": _per_second(summary.requests.ok, seconds),
        "throughput.input_tok_per_s": _per_second(inputs, seconds),
        "throughput.output_tok_per_s": _per_second(outputs, seconds),
        "throughput.total_tok_per_s": _per_second(total, seconds),
        "speculation.accept_length": (
            summary.speculation.accept_length if summary.speculation else None
        ),
    }


def bench_figures(run: Run, summary: Summary, tool: Tool) -> Figures:
    """Everything that the tool's block or JSON holds; null is unknown.

    Token counts here are exact, so the retokenized count is the same one. Of a run without
    requests, what its own tool gave. With no request that ended well, times are 0, as vLLM prints;
    so are those between tokens where no request has two events.
    """
    if not run.records and run.header.imported:
        return dict(run.header.imported.figures)
    ok = ok_records(run)
    empty = 0.0 if all(record.events.at_ns for record in ok) else None
    latencies = [latency_s(record, tool) for record in ok]
    known = [value for value in latencies if value is not None]
    complete = len(known) == len(ok)
    tokens, requests = _fullest_second(ok, tool)
    gaps = [gap for record in ok for gap in gaps_s(record, tool)]
    gap_name = "itl_ms" if tool == "sglang" else "chunk_gap_ms"
    waits = queues_known(run)
    queue = [_waited_s(record) if waits else None for record in ok]
    from_schedule = [
        None if latency is None or waited is None else latency + waited
        for latency, waited in zip(latencies, queue, strict=True)
    ]
    return {
        **_totals(summary),
        "concurrency.mean": _per_second(sum(known) if complete else None, summary.duration_s),
        "peak_output_events_per_s": tokens,
        "peak_requests_in_one_second": requests,
        **_distribution("e2e_ms", latencies, empty=empty),
        **_distribution("ttft_ms", (ttft_s(record) for record in ok), empty=empty),
        **_distribution("tpot_ms", (_tpot_s(record, tool) for record in ok), empty=empty),
        **_distribution(gap_name, gaps, empty=empty),
        **_distribution("queue_ms", queue, empty=empty if waits else None),
        **_distribution("e2e_from_schedule_ms", from_schedule, empty=empty if waits else None),
    }
