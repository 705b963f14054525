"""What sglang.bench_serving and `vllm bench serve` have in common as runs."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bench_client.imports.as_run import Request, Source, Told, run_of
from bench_client.imports.findings import bench_findings, decoding_concurrency, in_flight
from bench_client.records import Load, Run


def number(value: object) -> float | None:
    """A finite JSON number; None for infinity, a word or null."""
    if not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def load_of(rate: float | None, max_concurrency: float | None) -> Load:
    """Open at a rate (None: all at once), under a cap; all at once under a cap is a closed loop."""
    cap = None if max_concurrency is None else int(max_concurrency)
    if rate is None and cap is not None:
        return Load(kind="closed", concurrency=cap)
    return Load(kind="open", request_rate=rate, max_concurrency=cap)


def bench_run(
    told: Told,
    source: Source,
    figures: Mapping[str, float | None],
    requests: Sequence[Request] = (),
    findings: tuple[str, ...] = (),
) -> Run:
    """A benchmark's aggregates, what follows from them, and its requests where it kept them."""
    derived = {
        "concurrency.mean": in_flight(figures),
        "concurrency.decoding_mean": decoding_concurrency(figures),
    }
    known = {name: value for name, value in derived.items() if value is not None} | dict(figures)
    speculative = bool(figures.get("speculation.accept_length"))
    method = source.method or ("speculative" if speculative else None)
    found = bench_findings(figures, told.load, method)
    return run_of(told, source, known, requests, (*found, *findings))


def column(entry: Mapping[str, Any], key: str, count: int) -> list[Any]:
    """One list of a detailed result; missing, it is `count` nulls."""
    values = entry.get(key)
    return list(values) if isinstance(values, list) and len(values) == count else [None] * count


def finite(values: Mapping[str, object]) -> dict[str, float | None]:
    """Figures without those that the tool could not give."""
    found = {name: number(value) for name, value in values.items()}
    return {name: value for name, value in found.items() if value is not None}
