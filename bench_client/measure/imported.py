"""What another tool said of its own run: its aggregates under their names in `Summary`.

See docs/method.md, "Imported runs".
"""

import re
from collections.abc import Mapping, Sequence

from msgspec import convert

from bench_client.measure.figures import Concurrency, Speculation, Stat
from bench_client.records import Run

_STATISTICS = ("mean", "sd", "p50", "p90", "p95", "p99", "min", "max")
_POSITION = re.compile(r"speculation\.per_position_pct\.(\d+)")


def printed(run: Run, name: str) -> float | None:
    """An aggregate that the tool gave; null for a run of our own."""
    return run.header.imported.figures.get(name) if run.header.imported else None


def printed_count(run: Run, name: str) -> int | None:
    """The same, whole."""
    value = printed(run, name)
    return None if value is None else round(value)


def log_lines(run: Run) -> int | None:
    """How many lines of a server's log are all that is known; null for any other run."""
    return printed_count(run, "log_lines")


def imported_samples(run: Run) -> Mapping[str, Sequence[float]]:
    """The values that the tool kept, with the step times that follow from them.

    A log line's accept length and decode speed are of the same steps: step = length / speed.
    """
    if run.header.imported is None:
        return {}
    given = run.header.imported.samples
    lengths, rates = given.get("accept_length"), given.get("tps_decode")
    unlike = lengths and rates and len(lengths) != len(rates)
    if not rates or "step_ms" in given or unlike or min(rates) <= 0:
        return given
    pairs = zip(lengths or [1.0] * len(rates), rates, strict=True)
    return {**given, "step_ms": [1e3 * length / rate for length, rate in pairs]}


def printed_stat(run: Run, name: str) -> Stat:
    """A distribution of which only aggregates are known; n is 0 where not even these are."""
    found = {key: printed(run, f"{name}.{key}") for key in _STATISTICS}
    if all(value is None for value in found.values()):
        return Stat(n=0)
    return convert({"n": printed_count(run, "requests.ok") or 0, **found}, Stat)


def printed_concurrency(run: Run, seconds: float | None) -> Concurrency | None:
    """By Little's law from mean latencies, where the tool does not say; null for a run of our own.

    A mean TTFT above the mean E2E (they are of other requests, or defined unlike) tells nothing.
    """
    if run.header.imported is None:
        return None
    ok = printed(run, "requests.ok")
    e2e_ms, ttft_ms = printed(run, "e2e_ms.mean"), printed(run, "ttft_ms.mean")
    mean, decoding = printed(run, "concurrency.mean"), printed(run, "concurrency.decoding_mean")
    if ok and seconds and e2e_ms is not None:
        mean = ok * e2e_ms / 1e3 / seconds if mean is None else mean
        if decoding is None and ttft_ms is not None:
            decoding = ok * (e2e_ms - ttft_ms) / 1e3 / seconds
    decoding = None if decoding is None or decoding < 0 else decoding
    peak = printed_count(run, "concurrency.peak")
    if mean is None and peak is None and decoding is None:
        return None
    return Concurrency(mean=mean, peak=peak, decoding_mean=decoding)


def printed_speculation(run: Run) -> Speculation | None:
    """Accept length as the tool gave it; of a log, over its counts where it has them, else the
    mean of its lines. Null if it gave none.
    """
    imported = run.header.imported
    if imported is None:
        return None
    lengths = imported.samples.get("accept_length", ())
    single = printed(run, "speculation.accept_length")
    if not lengths and single is None:
        return None
    source = "log" if lengths else "imported"
    length = sum(lengths) / len(lengths) if single is None else single
    steps = imported_samples(run).get("step_ms")
    positions = {
        int(match.group(1)): value / 100
        for name, value in imported.figures.items()
        if value is not None and (match := _POSITION.fullmatch(name))
    }
    return Speculation(
        accept_length=length,
        accept_length_sources={source: length},
        accept_length_source=source,
        verify_steps=printed_count(run, "speculation.verify_steps"),
        step_ms=sum(steps) / len(steps) if steps else None,
        per_position=tuple(positions[i] for i in sorted(positions)),
    )
