"""The client's own error: what it saw of a server that logs when it really sent."""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from bench_client.measure.timeline import concurrency
from bench_client.records import Calibration, RequestRecord


class Sent(Struct, frozen=True, kw_only=True):
    """One line of the embedded engine's send log; instants are CLOCK_REALTIME in ns."""

    id: str
    received_ns: int
    events: tuple[tuple[int, int], ...]


def client_error(
    records: Sequence[RequestRecord],
    log: Mapping[str, Sent],
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
    seen_gaps, true_gaps = np.concatenate(seen), np.concatenate(true)
    if not len(seen_gaps) or not len(true_gaps):
        return None
    events = sum(len(sent.events) for _, sent in pairs)
    first_ns = min(record.sent_ns or 0 for record, _ in pairs)
    last_ns = max(record.last_token_ns or 0 for record, _ in pairs)
    return Calibration(
        streams=concurrency((record for record, _ in pairs), None).peak,
        events=events,
        events_per_s=round(events / max((last_ns - first_ns) / 1e9, 1e-9), 1),
        ttft_error_mean_ms=float(ttft.mean()),
        ttft_error_p99_ms=float(np.percentile(np.abs(ttft), 99)),
        gap_error_p99_ms=float(np.percentile(gap_errors, 99)),
        gap_p99_difference_ms=float(np.percentile(seen_gaps, 99) - np.percentile(true_gaps, 99)),
        merged_events=sum(len(sent.events) - record.reads for record, sent in pairs),
        cpu_us_per_event=None if cpu_s is None else round(cpu_s / events * 1e6, 2),
    )


def _ttft_error_ns(record: RequestRecord, sent: Sent) -> int:
    mine = (record.first_token_ns or 0) - (record.sent_ns or 0)
    return mine - (sent.events[0][0] - sent.received_ns)
