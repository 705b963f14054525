"""A run as the JSON that `vllm bench serve --save-result` writes (0.32)."""

import json
import math
import re
from typing import Any

from bench_client.measure.figures import Summary
from bench_client.measure.imported import printed
from bench_client.measure.speculation import grown
from bench_client.measure.timeline import ok_records, queues_known
from bench_client.records import Run
from bench_client.report.bench_figures import bench_figures, gaps_s, latency_s, ttft_s, waits_s

# Key -> figure, in the tool's order.
_TOTALS = {
    "completed": "requests.ok",
    "failed": "requests.failed",
    "total_input_tokens": "input_tokens",
    "total_output_tokens": "output_tokens",
}
_RATES = {
    "request_throughput": "throughput.request_per_s",
    "request_goodput": "goodput_request_per_s",
    "output_throughput": "throughput.output_tok_per_s",
    "total_token_throughput": "throughput.total_tok_per_s",
}
_FAMILIES = {
    "ttft": "ttft_ms",
    "tpot": "tpot_ms",
    "itl": "chunk_gap_ms",
    "e2el": "e2e_ms",
    "client_queue_time": "queue_ms",  # under a cap
    "e2el_including_client_queue": "e2e_from_schedule_ms",  # under a cap at a finite rate
}
_STATISTICS = {
    "mean": "mean",
    "median": "p50",
    "std": "std",
    "p90": "p90",
    "p95": "p95",
    "p99": "p99",
}
_ENDPOINTS = {"chat": "openai-chat", "completions": "openai", "generate": "generate"}


def vllm_json(run: Run, summary: Summary, *, details: bool = False) -> str:
    """The result file's text; `details` adds the requests, as --save-detailed does.

    Definitions are vLLM's: ITL is one value an event, percentiles are of however few values.
    Speculation is there of vLLM alone: the tool reads vLLM's counters.
    """
    plan, server = run.header.plan, run.header.server
    figures = bench_figures(run, summary, "vllm")
    load, endpoint = plan.load, _ENDPOINTS[plan.api]
    result: dict[str, Any] = {
        "date": _date(run.header.started_at),
        "endpoint_type": endpoint,
        "backend": endpoint,
        "label": server.name,
        "model_id": server.model,
        "tokenizer_id": server.model,
        "num_prompts": len(run.records) or summary.requests.ok + summary.requests.failed,
        "request_rate": load.request_rate or "inf",
        "burstiness": load.burstiness or 1.0,
        "max_concurrency": load.concurrency if load.kind == "closed" else load.max_concurrency,
        "duration": summary.duration_s,
    }
    result |= {key: _whole(figures.get(name)) for key, name in _TOTALS.items()}
    result |= {key: figures.get(name) for key, name in _RATES.items()}
    result |= _latencies(run)
    result |= {
        "max_output_tokens_per_s": figures.get("peak_output_events_per_s"),
        "max_concurrent_requests": _whole(figures.get("peak_requests_in_one_second")),
        "rtfx": 0.0,
    }
    result |= _speculation(run, summary)
    absent = _absent(result["request_rate"], result["max_concurrency"])
    result |= {
        f"{word}_{key}_ms": figures.get(f"{family}.{statistic}")
        for key, family in _FAMILIES.items()
        if key not in absent
        for word, statistic in _STATISTICS.items()
    }
    return json.dumps(result | (_details(run) if details else {}), ensure_ascii=False) + "\n"


def _whole(value: float | None) -> int | None:
    return None if value is None or not math.isfinite(value) else int(value)


def _date(started_at: str) -> str:
    """`2026-11-30T15:34:40Z` -> `20261130-153440`."""
    parts = re.findall(r"\d+", started_at)[:6]
    return "".join(parts[:3]) + "-" + "".join(parts[3:]) if len(parts) == 6 else started_at


def _speculation(run: Run, summary: Summary) -> dict[str, Any]:
    """By the growth of vLLM's counters; accept length is 1 + accepted / drafts.

    Where those are not known, by what vLLM said of every request, or as another tool gave it.
    """
    if run.header.server.engine not in (None, "vllm"):
        return {}
    names = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
    counted = [grown(run.header.server, f"vllm:spec_decode_{name}_total") for name in names]
    keys = ("verify_steps", "draft_tokens", "accepted_tokens")
    told = [printed(run, f"speculation.{key}") for key in keys]
    found = next((each for each in (counted, _reported(run), told) if None not in each), [])
    drafts, drafted, accepted = [float(value or 0) for value in found] or (0.0, 0.0, 0.0)
    if not drafts or not drafted:
        return {}
    positions = summary.speculation.per_position if summary.speculation else ()
    return {
        "spec_decode_acceptance_rate": 100 * accepted / drafted,
        "spec_decode_acceptance_length": 1 + accepted / drafts,
        "spec_decode_num_drafts": int(drafts),
        "spec_decode_draft_tokens": int(drafted),
        "spec_decode_accepted_tokens": int(accepted),
        "spec_decode_per_position_acceptance_rates": list(positions),
    }


def _reported(run: Run) -> list[float | None]:
    """Verify steps, drafted and accepted tokens over all requests; null if one does not say."""
    accepts = [record.accept for record in ok_records(run)]
    known = [
        (accept.verify_steps, accept.draft_tokens, accept.accepted_tokens)
        for accept in accepts
        if accept is not None
    ]
    if not known or len(known) != len(accepts):
        return [None]
    return [
        None if None in column else sum(value or 0 for value in column)
        for column in zip(*known, strict=True)
    ]


def _absent(rate: float | str, cap: int | None) -> set[str]:
    """The tool gives queueing only under a cap, and latency from the arrival if they are spread."""
    without = set() if cap else {"client_queue_time"}
    return without if cap and rate != "inf" else {*without, "e2el_including_client_queue"}


def _latencies(run: Run) -> dict[str, Any]:
    """One entry a request, in seconds, with --save-detailed or not; null where none were kept.

    A failed request has a latency of 0. Queueing is from when a request was due, in a closed loop
    from its beginning.
    """
    if not run.records and run.header.imported:
        kept = run.header.imported.samples.get("e2e_ms")
        return {"latencies": kept and [ms / 1e3 for ms in kept], "queue_times": None}
    ok = {id(record) for record in ok_records(run)}
    queued = [wait or 0.0 for wait in waits_s(run)]
    return {
        "latencies": [latency_s(r, "vllm") if id(r) in ok else 0.0 for r in run.records],
        "queue_times": queued if queues_known(run) else None,
    }


def _details(run: Run) -> dict[str, Any]:
    """One entry a request; a failed one has its error and what had come before it."""
    ok = {id(record) for record in ok_records(run)}
    good = [record if id(record) in ok else None for record in run.records]
    return {
        "input_lens": [record.input_tokens for record in run.records],
        "output_lens": [record.output_tokens if record else 0 for record in good],
        "ttfts": [ttft_s(r) if id(r) in ok else ttft_s(r) or 0.0 for r in run.records],
        "itls": [gaps_s(record, "vllm") for record in run.records],
        "start_times": [(record.sent_ns or 0) / 1e9 for record in run.records],
        "generated_texts": [(record.output_text or "") if record else "" for record in good],
        "errors": [record.failure.message if record.failure else "" for record in run.records],
    }
