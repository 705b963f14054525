"""What sglang.bench_serving and `vllm bench serve` have in common as runs."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from bench_client.imports.as_run import Request, Source, Told, name_of, run_of
from bench_client.imports.findings import bench_findings, decoding_concurrency, in_flight
from bench_client.records import Load, Run


def load_of(rate: float | None, max_concurrency: float | None) -> Load:
    """Open at a rate (None: all at once), under a cap; all at once under a cap is a closed loop."""
    cap = int(max_concurrency or 0) or None
    if rate is None and cap is not None:
        return Load(kind="closed", concurrency=cap)
    return Load(kind="open", request_rate=rate, max_concurrency=cap)


def labelled(
    source: Source, told: Told, figures: Mapping[str, float | None], tag: str | None
) -> Source:
    """The source of a JSON result under its tag and load, where no heading gives it a label."""
    load = told.load
    parts = {
        "concurrency {}": load.concurrency,
        "{:g} req/s": load.request_rate,
        "at most {} in flight": load.max_concurrency,
    }
    told_load = [text.format(value) for text, value in parts.items() if value is not None]
    if source.label is not None or not (tag or told_load):
        return source
    return replace(source, label=", ".join([tag or name_of(told, figures, source), *told_load]))


def bench_run(
    told: Told,
    source: Source,
    figures: Mapping[str, float | None],
    requests: Sequence[Request] = (),
    findings: tuple[str, ...] = (),
) -> Run:
    """A benchmark's aggregates, what follows from them, and its requests where it kept them.

    ValueError where neither these nor a count tell how many requests ended well.
    """
    ok = figures.get("requests.ok")
    if ok is None or ok < 0:
        if not requests:
            raise ValueError("its count of successful requests is missing, below 0 or no number")
        figures = {**figures, "requests.ok": None}
    derived = {
        "concurrency.mean": in_flight(figures),
        "concurrency.decoding_mean": decoding_concurrency(figures),
    }
    known = {name: value for name, value in derived.items() if value is not None} | dict(figures)
    speculative = bool(figures.get("speculation.accept_length"))
    method = source.method or ("speculative" if speculative else None)
    found = bench_findings(figures, told.load, method)
    return run_of(told, source, known, requests, (*found, *findings))
