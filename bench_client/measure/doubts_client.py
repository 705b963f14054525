"""Doubts about the measuring side. Limits: docs/method.md, "Doubts"."""

from collections.abc import Iterator
from typing import Any

from bench_client.measure.error import not_carried, server_limited
from bench_client.measure.figures import Doubt, Severity, Stat, Summary
from bench_client.measure.timeline import ok_records
from bench_client.records import Run

CLOCK_STEP_MS = 1.0
CLOCK_STEP_SHARE = 0.5
EVENTS_PER_READ = 1.05
BUSY_CORE = 0.9
LONG_ENOUGH_S = 1.0  # in less, starting up is all that the CPU time tells of
OTHER_LOAD_PERCENT = 20.0
LOOP_LAG_MS = 20.0
OWN_ERROR_SHARE = 0.1
FEW_STREAMS = 4

_APPLICATIONS = ("httpx", "openai")


def client_doubts(run: Run, summary: Summary) -> Iterator[Doubt]:
    """What the client's own state says against its figures."""
    yield from _clock(run, summary)
    yield from _merged(run)
    yield from _core(run, summary)
    yield from _lag(run)
    yield from _machine(summary)
    yield from _reopened(run)
    yield from _stamps(run)
    yield from _transport(run, summary)
    yield from _calibration(summary)


def _clock(run: Run, summary: Summary) -> Iterator[Doubt]:
    clock = run.header.client.clock
    step_ms = abs(clock.step_ns) / 1e6 if clock else 0.0
    if step_ms <= CLOCK_STEP_MS:
        return
    # A step makes what is measured across it longer, or shorter than nothing: the shortest tells.
    shortest_ms = summary.ttft_ms.min
    small = shortest_ms is None or step_ms < CLOCK_STEP_SHARE * shortest_ms
    yield Doubt(
        "clock_step",
        "doubtful" if small else "invalid",
        f"the wall clock stepped by {step_ms:.1f} ms during the run, and latencies across it are "
        "off by as much: let the clock settle, then run again",
    )


def _merged(run: Run) -> Iterator[Doubt]:
    ok = ok_records(run)
    events = sum(len(record.events.at_ns) for record in ok)
    reads = sum(record.reads for record in ok)
    if reads and events > EVENTS_PER_READ * reads:
        yield Doubt(
            "merged_events",
            "doubtful",
            f"{events / reads:.2f} events came with each network read, so single gaps are blurred "
            "(means are not): use a less loaded client, or more workers",
        )


def _core(run: Run, summary: Summary) -> Iterator[Doubt]:
    client, duration_s = run.header.client, summary.duration_s or 0.0
    if client.cpu_s is None or duration_s < LONG_ENOUGH_S:
        return
    share = client.cpu_s / duration_s / client.workers
    if share > BUSY_CORE:
        yield Doubt(
            "core_saturated",
            "invalid",
            f"the client used {share:.0%} of a core and may have held requests back: "
            "spread the load with --workers",
        )


def _lag(run: Run) -> Iterator[Doubt]:
    client = run.header.client
    lag_ms = client.loop_lag_ms_max
    if lag_ms is None or lag_ms <= LOOP_LAG_MS:
        return
    # Kernel stamps do not wait for the loop; only the send times of an open loop do.
    harmless = client.stamp_source == "kernel" and run.header.plan.load.kind == "closed"
    severe: Severity = "doubtful" if client.stamp_source == "kernel" else "invalid"
    yield Doubt(
        "loop_lag",
        "note" if harmless else severe,
        f"the client's event loop was up to {lag_ms:.0f} ms late"
        + (", which kernel stamps do not show" if harmless else ": spread it with --workers"),
    )


def _machine(summary: Summary) -> Iterator[Doubt]:
    used = _at(summary.telemetry, "machine", "other_cpu_percent", "mean")
    if used is not None and used > OTHER_LOAD_PERCENT:
        yield Doubt(
            "busy_machine",
            "doubtful",
            f"other programs kept {used:.0f}% of the machine busy on average: stop them and run "
            "again",
        )


def _at(folded: Any, *path: str) -> float | None:
    for name in path:
        if not isinstance(folded, dict) or name not in folded:
            return None
        folded = folded[name]
    return float(folded)


def _reopened(run: Run) -> Iterator[Doubt]:
    reopened = sum(record.reopened for record in run.records)
    if reopened:
        yield Doubt(
            "reopened_connections",
            "note",
            f"{reopened} requests went out on a connection that had to be reopened, before the "
            "clock started: the server closes idle connections early",
        )


def _stamps(run: Run) -> Iterator[Doubt]:
    ok = ok_records(run)
    user = sum(record.stamps == "user" for record in ok)
    if user:
        yield Doubt(
            "user_stamps",
            "note",
            f"{user} of {len(ok)} answers were stamped in user space, so the client's own delays "
            "are in their latencies: plain HTTP on Linux gets kernel stamps",
        )


def _transport(run: Run, summary: Summary) -> Iterator[Doubt]:
    """A general client library is late by its own work, which grows with the streams at once."""
    name, streams = run.header.client.transport, summary.concurrency.peak or 0
    if name not in _APPLICATIONS:
        return
    many = streams > FEW_STREAMS
    yield Doubt(
        "not_the_instrument",
        "doubtful" if many else "note",
        f"--transport {name} shows what an application sees, its client library's delays included"
        + (f", which are large with {streams} streams: take --transport wire" if many else ""),
    )


def _calibration(summary: Summary) -> Iterator[Doubt]:
    found = summary.calibration
    if found is None:
        return
    if lacking := not_carried(found):
        yield Doubt(
            "calibration_load",
            "note" if server_limited(found) else "doubtful",
            f"the client's own error is of a smaller load than this run's: {lacking}",
        )
    checks = (
        ("TTFT", found.ttft_error_p99_ms, found.ttft_error_max_ms, summary.ttft_ms.mean),
        ("p99 gap", found.gap_error_p99_ms, found.gap_error_max_ms, _high(summary.chunk_gap_ms)),
    )
    for name, p99_ms, max_ms, measured_ms in checks:
        error_ms, where = (p99_ms, "at p99") if p99_ms is not None else (max_ms or 0.0, "at most")
        if measured_ms is not None and abs(error_ms) > OWN_ERROR_SHARE * measured_ms:
            yield Doubt(
                "calibration_error",
                "doubtful",
                f"the client's own error at this load ({error_ms:.2f} ms {where}) is more than a "
                f"tenth of the measured {name} ({measured_ms:.2f} ms): use an idle machine or "
                "more workers",
            )


def _high(stat: Stat) -> float | None:
    return stat.max if stat.p99 is None else stat.p99
