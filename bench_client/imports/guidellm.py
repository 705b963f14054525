"""GuideLLM 0.8.1: benchmarks.json (report version 2); each of its benchmarks is a run.

Shapes: guidellm/benchmark/schemas/ and guidellm/schemas/base/ of that version.
"""

from collections.abc import Mapping
from typing import Any

from bench_client.imports.as_run import Request, Source, Told, run_of
from bench_client.imports.bench import load_of
from bench_client.imports.values import finite, number, whole, word
from bench_client.records import Accept, Load, Run

TOOL = "guidellm"

# Distribution of the report -> (family here, factor to its unit).
FAMILIES = {
    "request_latency": ("e2e_ms", 1000.0),
    "time_to_first_token_ms": ("ttft_ms", 1.0),
}
PERCENTILES = ("p50", "p90", "p95", "p99")
DEFINITIONS = {
    "e2e_ms": "of the printed aggregates: to the end of the request, not to the last token",
    "percentiles": "of all values; std divides by n",
}


def is_report(entry: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a GuideLLM report."""
    benchmarks = entry.get("benchmarks")
    return isinstance(benchmarks, list) and "metadata" in entry


def report_runs(entry: Mapping[str, Any], source: Source) -> list[Run]:
    """Every benchmark of a report. ValueError for a report of another version."""
    metadata = entry["metadata"]
    if metadata.get("version") != 2:
        raise ValueError(
            f"a GuideLLM report of version {metadata.get('version')}; this reads version 2 "
            "(GuideLLM 0.8)"
        )
    version = metadata.get("guidellm_version")
    return [_run(benchmark, version, source) for benchmark in entry["benchmarks"]]


def _run(benchmark: Mapping[str, Any], version: str | None, source: Source) -> Run:
    config, metrics = benchmark["config"], benchmark["metrics"]
    zero = benchmark["scheduler_metrics"]["start_time"]
    requests = [
        *(_request(row, zero, failed=False) for row in benchmark["requests"]["successful"] or ()),
        *(_request(row, zero, failed=True) for row in benchmark["requests"]["errored"] or ()),
    ]
    strategy = config["strategy"]
    told = Told(
        tool=TOOL,
        version=version,
        model=config["backend"].get("model"),
        load=_load(strategy),
        began=zero,
        seconds=number(benchmark.get("duration")),
        definitions=DEFINITIONS,
    )
    label = Source(file=source.file, label=_label(strategy), server=source.server)
    requests.sort(key=lambda request: request.start)
    return run_of(told, label, _figures(metrics, benchmark.get("duration")), requests)


def _figures(metrics: Mapping[str, Any], seconds: float | None) -> dict[str, float | None]:
    """Aggregates over the successful requests; with none of those, only counts."""
    totals = metrics["request_totals"]
    figures: dict[str, object] = {
        "requests.ok": totals["successful"],
        "requests.failed": totals["errored"],
        "duration_s": seconds,
    }
    if not totals["successful"]:
        return finite(figures)
    good = {k: v["successful"] for k, v in metrics.items() if isinstance(v, dict) and "total" in v}
    figures |= {
        "input_tokens": good["prompt_token_count"]["total_sum"],
        "output_tokens": good["output_token_count"]["total_sum"],
        "concurrency.mean": good["request_concurrency"]["mean"],
        "itl_ms.mean": good["inter_token_latency_ms"]["mean"],
    }
    for name, (family, factor) in FAMILIES.items():
        given = good[name]
        figures |= {
            f"{family}.mean": given["mean"] * factor,
            f"{family}.std": given["std_dev"] * factor,
            f"{family}.min": given["min"] * factor,
            f"{family}.max": given["max"] * factor,
        }
        figures |= {f"{family}.{p}": given["percentiles"][p] * factor for p in PERCENTILES}
    return finite(figures)


def _load(strategy: Mapping[str, Any]) -> Load:
    streams = strategy.get("streams") or (1 if strategy.get("type_") == "synchronous" else None)
    if streams is not None:
        return Load(kind="closed", concurrency=streams)
    return load_of(number(strategy.get("rate")), number(strategy.get("max_concurrency")))


def _label(strategy: Mapping[str, Any]) -> str:
    amount = strategy.get("streams") or strategy.get("rate")
    return f"{strategy.get('type_')}{'' if amount is None else f' {amount:g}'}"


def _request(row: Mapping[str, Any], zero: float, *, failed: bool) -> Request:
    times, info = row["info"]["timings"], row["info"]
    start = times.get("request_start") or times.get("resolve_start") or zero

    def since(name: str) -> float | None:
        return None if times.get(name) is None else float(times[name]) - zero

    usage = whole(row["output_metrics"].get("total_tokens"))
    return Request(
        start=start - zero,
        arrival=since("targeted_start"),
        first=since("first_token_iteration"),
        end=since("last_token_iteration"),
        done=since("request_end") or since("resolve_end"),
        input_tokens=whole(row["input_metrics"].get("total_tokens")),
        output_tokens=usage,
        count_source=None if usage is None else "final_usage",
        accept=_accept(row.get("response_metrics")),
        error=(info.get("error") or "failed, no reason kept") if failed else "",
        text=word(row.get("output")),
    )


def _accept(metrics: Mapping[str, Any] | None) -> Accept | None:
    """What vLLM sends beside the usage with --per-request-spec-decode-metrics."""
    given = (metrics or {}).get("speculative_decoding")
    steps = whole(given.get("num_spec_steps")) if given else None
    if not given or steps is None:
        return None
    return Accept(
        source="vllm",
        verify_steps=steps,
        accepted_tokens=whole(given.get("num_accepted_draft_tokens")),
        draft_tokens=whole(given.get("num_draft_tokens")),
        histogram=tuple(whole(n) or 0 for n in given.get("acceptance_histogram") or ()),
    )
