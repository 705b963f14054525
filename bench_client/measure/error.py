"""The client's own error: what it saw of a server that logs when it really sent."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from bench_client.measure.stats import PERCENTILE_NEEDS
from bench_client.measure.timeline import concurrency
from bench_client.records import Calibration, RequestRecord

CARRIED = 0.8  # of a planned load; with less it was another one

FloatArray = npt.NDArray[np.float64]


class Sent(Struct, frozen=True, kw_only=True):
    """One line of the embedded engine's send log; instants are CLOCK_REALTIME in ns."""

    id: str
    received_ns: int
    events: tuple[tuple[int, int], ...]


class Pace(Struct, frozen=True, kw_only=True):
    """What the server was to do with each answer, and the events/s of all (null: not known)."""

    ttft_ms: float
    gap_ms: float
    events_per_s: float | None = None


def client_error(
    records: Sequence[RequestRecord],
    log: Mapping[str, Sent],
    pace: Pace,
    cpu_s: float | None,
) -> Calibration | None:
    """Compare records with the log, request by request. Null where nothing can be compared.

    TTFT error: the client's (first token - sent) minus the server's (first send - receipt). Gap
    error: the difference of each gap between two events, where no events were merged. The formulas
    stand in docs/method.md, "The client's own error".
    """
    pairs = [(record, log[record.id]) for record in records if record.id in log]
    pairs = [(record, sent) for record, sent in pairs if record.outcome == "ok" and sent.events]
    if not pairs:
        return None
    ttft = np.array([_ttft_error_ns(record, sent) for record, sent in pairs]) / 1e6
    seen = [np.diff(record.events.at_ns) / 1e6 for record, _ in pairs]
    true = [np.diff([at_ns for at_ns, _ in sent.events]) / 1e6 for _, sent in pairs]
    errors = [mine - its for mine, its in zip(seen, true, strict=True) if len(mine) == len(its)]
    gap_errors = np.abs(np.concatenate(errors)) if errors else np.zeros(1)
    gap_p99s = [_p99(np.concatenate(gaps)) for gaps in (seen, true)]
    if not any(map(len, seen)) or not any(map(len, true)):
        return None
    events = sum(len(sent.events) for _, sent in pairs)
    streams = concurrency((record for record, _ in pairs), None).peak or 0
    return Calibration(
        streams=streams,
        events=events,
        events_per_s=round(streams * _rate(seen), 1),
        ttft_error_mean_ms=float(ttft.mean()),
        ttft_error_p99_ms=_p99(np.abs(ttft)),
        gap_error_p99_ms=_p99(gap_errors),
        gap_p99_difference_ms=(
            None if gap_p99s[0] is None or gap_p99s[1] is None else gap_p99s[0] - gap_p99s[1]
        ),
        merged_events=sum(len(sent.events) - record.reads for record, sent in pairs),
        cpu_us_per_event=None if cpu_s is None else round(cpu_s / events * 1e6, 2),
        answers=len(pairs),
        ttft_error_max_ms=float(np.abs(ttft).max()),
        gap_error_max_ms=float(gap_errors.max()),
        planned_events_per_s=pace.events_per_s,
        server_slower=round(1e3 / pace.gap_ms / _rate(true) - 1, 3),
    )


def carried(found: Calibration) -> float | None:
    """The share of the planned load that was carried; null where none is known."""
    planned = found.planned_events_per_s
    return found.events_per_s / planned if planned else None


def not_carried(found: Calibration) -> str | None:
    """Why the load was another than planned, in a sentence; null where it was as planned."""
    share, planned = carried(found), found.planned_events_per_s
    if share is None or share >= CARRIED:
        return None
    rates = f"{found.events_per_s:,.0f} of the planned {planned:,.0f} events/s"
    if server_limited(found):
        return (
            f"only {rates} were carried, because the embedded engine could not send faster on "
            "this machine: what the client can do with more is not known"
        )
    return (
        f"only {rates} were carried, because the client could not keep up: give it more --workers "
        "or a machine with idle cores"
    )


def server_limited(found: Calibration) -> bool:
    """Whether most of what a load lacks is the embedded engine's lateness, by its own log."""
    share = carried(found) or 1.0
    return (found.server_slower or 0.0) >= (1 / share - 1) / 2


def _p99(values: FloatArray) -> float | None:
    return float(np.percentile(values, 99)) if len(values) >= PERCENTILE_NEEDS["p99"] else None


def _rate(gaps_ms: Sequence[FloatArray]) -> float:
    """Events/s of a stream while it decodes: what is late alike in all events does not count."""
    every = np.concatenate(gaps_ms)
    return len(every) * 1e3 / max(float(every.sum()), 1e-6)


def _ttft_error_ns(record: RequestRecord, sent: Sent) -> int:
    mine = (record.first_token_ns or 0) - (record.sent_ns or 0)
    return mine - (sent.events[0][0] - sent.received_ns)
