"""AIPerf 0.13.0: profile_export_aiperf.json (aggregates) and profile_export.jsonl (requests).

Shapes: aiperf/common/models/export_models.py and record_models.py of that version.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bench_client.imports.as_run import Request, Source, Told
from bench_client.imports.bench import bench_run, load_of
from bench_client.imports.values import finite, number, whole
from bench_client.records import Accept, Run, TokenCountSource

TOOL = "aiperf"

SCALARS = {
    "request_count": "requests.ok",
    "error_request_count": "requests.failed",
    "benchmark_duration": "duration_s",
    "total_isl": "input_tokens",
    "total_osl": "output_tokens",
    "request_throughput": "throughput.request_per_s",
    "input_token_throughput": "throughput.input_tok_per_s",
    "output_token_throughput": "throughput.output_tok_per_s",
    "total_token_throughput": "throughput.total_tok_per_s",
    "effective_concurrency": "concurrency.mean",
    "spec_decode_token_weighted_acceptance_length": "speculation.accept_length",
    "total_spec_decode_steps": "speculation.verify_steps",
    "total_draft_tokens": "speculation.draft_tokens",
    "total_accepted_draft_tokens": "speculation.accepted_tokens",
}
FAMILIES = {
    "request_latency": "e2e_ms",
    "time_to_first_token": "ttft_ms",
    "inter_token_latency": "tpot_ms",
    "inter_chunk_latency": "chunk_gap_ms",
    "output_token_throughput_per_user": "tps_decode",
    "e2e_output_token_throughput": "tps_e2e",
}
STATISTICS = {name: name for name in ("min", "max", "std", "p50", "p90", "p95", "p99")} | {
    "avg": "mean"
}
DEFINITIONS = {
    "tps_decode": "1 / TPOT, so the first event is taken to carry one token",
    "output_tokens": "tokenized again by the client unless --use-server-token-count",
    "requests.ok": "a stream that broke off or ended in an error after its first token counts",
    "percentiles": "numpy's, linear, of all values; std divides by n",
}


def is_summary(entry: Mapping[str, Any]) -> bool:
    """Whether a JSON object is profile_export_aiperf.json."""
    return "aiperf_version" in entry or isinstance(entry.get("request_latency"), dict)


def is_record(entry: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a line of profile_export.jsonl."""
    metadata = entry.get("metadata")
    return isinstance(metadata, dict) and "request_start_ns" in metadata and "metrics" in entry


def summary_run(entry: Mapping[str, Any], source: Source) -> Run:
    """The aggregates as a run."""
    figures: dict[str, object] = {
        figure: entry[tag].get("avg") for tag, figure in SCALARS.items() if tag in entry
    }
    for tag, family in FAMILIES.items():
        for name, statistic in STATISTICS.items():
            figures[f"{family}.{statistic}"] = entry.get(tag, {}).get(name)
    if "error_request_count" in entry:  # AIPerf writes no count of nothing
        figures.setdefault("requests.ok", 0)
    known = finite(figures)
    config = entry.get("input_config") or {}
    phases = [p for p in config.get("phases") or () if p.get("kind") == "profiling"]
    phase: dict[str, Any] = phases[0] if phases else {}
    models = (config.get("models") or {}).get("items") or [{}]
    told = Told(
        tool=TOOL,
        version=entry.get("aiperf_version"),
        model=models[0].get("name"),
        load=load_of(number(phase.get("rate")), number(phase.get("concurrency"))),
        started_at=str(entry.get("start_time", "")),
        seconds=known.get("duration_s"),
        definitions=DEFINITIONS,
    )
    return bench_run(told, source, known)


def records_run(entries: Sequence[Mapping[str, Any]], source: Source) -> Run:
    """The requests of the profiling phase as a run; ValueError where all are of the warm-up."""
    kept = [x for x in entries if x["metadata"].get("benchmark_phase") in (None, "profiling")]
    if not kept:
        raise ValueError("every request in it is of the warm-up")
    zero = min(map(_arrival_ns, kept))
    told = Told(tool=TOOL, began=zero / 1e9, definitions=DEFINITIONS)
    return bench_run(told, source, {}, [_request(entry, zero) for entry in kept])


def _arrival_ns(entry: Mapping[str, Any]) -> int:
    metadata = entry["metadata"]
    return int(metadata.get("credit_issued_ns") or metadata["request_start_ns"])


def _request(entry: Mapping[str, Any], zero: int) -> Request:
    metadata = entry["metadata"]
    values = {tag: metric.get("value") for tag, metric in (entry.get("metrics") or {}).items()}
    start = (metadata["request_start_ns"] - zero) / 1e9
    ttft, latency = values.get("time_to_first_token"), values.get("request_latency")
    counted = values.get("usage_completion_tokens")
    output = values.get("output_sequence_length") if counted is None else counted
    source: TokenCountSource = "tokenizer" if counted is None else "final_usage"
    gaps = values.get("inter_chunk_latency")
    return Request(
        start=start,
        arrival=(_arrival_ns(entry) - zero) / 1e9,
        first=None if ttft is None else start + ttft / 1e3,
        end=None if latency is None else start + latency / 1e3,
        done=(metadata["request_end_ns"] - zero) / 1e9 if metadata.get("request_end_ns") else None,
        input_tokens=whole(values.get("input_sequence_length")),
        output_tokens=whole(output),
        count_source=None if output is None else source,
        gaps=None if gaps is None else [gap / 1e3 for gap in gaps],
        accept=_accept(values),
        error=_error(entry),
    )


def _error(entry: Mapping[str, Any]) -> str:
    error = entry.get("error") or {}
    if entry["metadata"].get("was_cancelled"):
        return "cancelled by the client"
    return str(error.get("message") or error.get("type") or "")


def _accept(values: Mapping[str, Any]) -> Accept | None:
    steps = whole(values.get("spec_decode_steps"))
    if steps is None:
        return None
    return Accept(
        source="aiperf",
        verify_steps=steps,
        accepted_tokens=whole(values.get("spec_decode_accepted_draft_tokens")),
        draft_tokens=whole(values.get("spec_decode_draft_tokens")),
    )
