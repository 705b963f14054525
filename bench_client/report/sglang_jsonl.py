"""A run as a line of sglang.bench_serving's output file (--output-file)."""

import json
from typing import Any

from bench_client.measure.figures import Summary
from bench_client.measure.timeline import ok_records
from bench_client.records import Run
from bench_client.report.bench_figures import backend, bench_figures, gaps_s, ttft_s
from bench_client.report.sglang_block import (
    DIVIDES,
    FORMS,
    LATEST,
    WHOLE,
    figure_of,
    form_of,
    max_concurrency,
    request_rate,
)

# Keys of a JSONL line after the settings: (key, figure); the latencies follow from `_STATISTICS`.
_JSON_TOTALS = (
    ("duration", "duration_s"),
    ("completed", "requests.ok"),
    ("total_input_tokens", "input_tokens"),
    ("total_input_text_tokens", "input_text_tokens"),
    ("total_input_vision_tokens", "input_vision_tokens"),
    ("total_output_tokens", "output_tokens"),
    ("total_output_tokens_retokenized", "output_tokens_retokenized"),
    ("request_throughput", "throughput.request_per_s"),
    ("input_throughput", "throughput.input_tok_per_s"),
    ("output_throughput", "throughput.output_tok_per_s"),
    ("total_throughput", "throughput.total_tok_per_s"),
)
_JSON_ENDS = (
    ("concurrency", "concurrency.mean"),
    ("accept_length", "speculation.accept_length"),
    ("max_output_tokens_per_s", "peak_output_events_per_s"),
    ("max_concurrent_requests", "peak_requests_in_one_second"),
)
_FAMILIES = (("e2e_latency", "e2e_ms"), ("ttft", "ttft_ms"), ("tpot", "tpot_ms"), ("itl", "itl_ms"))
_STATISTICS = ("mean", "median", "std", "p90", "p95", "p99")
# What 0.5.3 does not write yet.
_JSON_NEW = {
    "tag",
    "server_info",
    "total_input_text_tokens",
    "total_input_vision_tokens",
    "total_throughput",
    "max_output_tokens_per_s",
    "max_concurrent_requests",
    *(f"{p}_{family}_ms" for p in ("p90", "p95") for family, _ in _FAMILIES),
} - {"p95_itl_ms"}


def sglang_jsonl(
    run: Run, summary: Summary, version: str = LATEST, *, details: bool = False
) -> str:
    """One line of the output file, as 0.5.23 or (asked for a version before 0.5.5) 0.5.3 write it.

    As theirs, an infinite rate is written `Infinity`, which is not JSON by RFC 8259. `details`
    adds the requests, as --output-details does. Null is unknown.
    """
    divides = form_of(version) >= FORMS.index(DIVIDES)
    figures = bench_figures(run, summary, "sglang", divides=divides)
    lengths = dict.fromkeys(
        ("sharegpt_output_len", "random_input_len", "random_output_len", "random_range_ratio")
    )
    result: dict[str, Any] = {
        "tag": run.header.note,
        "backend": backend(run),
        "dataset_name": run.header.plan.scenario,
        "request_rate": request_rate(run),
        "max_concurrency": max_concurrency(run),
        **lengths,
        "server_info": run.header.server.facts.get("server_info"),
    }
    names = [
        *_JSON_TOTALS,
        *(
            (f"{word}_{family}_ms", f"{figure}.{'p50' if word == 'median' else word}")
            for family, figure in _FAMILIES
            for word in _STATISTICS
        ),
        *_JSON_ENDS,
    ]
    for key, name in names:
        value = figure_of(figures, name)
        result[key] = int(value) if name in WHOLE and value is not None else value
    if form_of(version) < FORMS.index("0.5.5"):
        result = {key: value for key, value in result.items() if key not in _JSON_NEW}
    return json.dumps(result | (_details(run) if details else {}), ensure_ascii=False) + "\n"


def _details(run: Run) -> dict[str, Any]:
    """One entry a request, in the plan's order; a failed one has its error and what came before.

    ITLs are as the stream reader keeps them, before any spreading over tokens.
    """
    ok = {id(record) for record in ok_records(run)}
    good = [record if id(record) in ok else None for record in run.records]
    return {
        "input_lens": [record.input_tokens for record in run.records],
        "output_lens": [record.output_tokens if record else 0 for record in good],
        "ttfts": [ttft_s(r) if id(r) in ok else ttft_s(r) or 0.0 for r in run.records],
        "itls": [gaps_s(record, backend(run)) for record in run.records],
        "generated_texts": [(record.output_text or "") if record else "" for record in good],
        "errors": [r.failure.message if r.failure else "" for r in run.records],
    }
