"""One request's instants to its figures, and all requests' instants to concurrency.

Formulas: docs/method.md, "Latency", "Token rates", "Inter-token latency", "Concurrency".
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from bench_client.measure.figures import Concurrency
from bench_client.records import RequestRecord, Run

FloatArray = npt.NDArray[np.float64]

NS_PER_MS = 1e6
NS_PER_S = 1e9


class RequestFigures(Struct, frozen=True, kw_only=True):
    """What one request amounts to, in ms and tok/s; null where an instant or a count is missing."""

    ttft_ms: float | None
    e2e_ms: float | None
    queue_ms: float | None
    decode_ms: float | None
    tpot_ms: float | None
    tps_e2e: float | None
    tps_decode: float | None
    ttft_from_schedule_ms: float | None
    e2e_from_schedule_ms: float | None


def request_figures(record: RequestRecord) -> RequestFigures:
    """The figures of one request, whatever its outcome."""
    e2e_ms = _ms(record.sent_ns, record.last_token_ns)
    decode_ms = _ms(record.first_token_ns, record.last_token_ns)
    output = record.output_tokens
    later = output - 1 if output and output > 1 else None
    return RequestFigures(
        ttft_ms=_ms(record.sent_ns, record.first_token_ns),
        e2e_ms=e2e_ms,
        queue_ms=_ms(record.scheduled_ns, record.sent_ns),
        decode_ms=decode_ms,
        tpot_ms=None if decode_ms is None or later is None else decode_ms / later,
        tps_e2e=per_second(output, e2e_ms),
        tps_decode=per_second(decode_tokens(record) or None, decode_ms),
        ttft_from_schedule_ms=_ms(record.scheduled_ns, record.first_token_ns),
        e2e_from_schedule_ms=_ms(record.scheduled_ns, record.last_token_ns),
    )


def _ms(begin_ns: int | None, end_ns: int | None) -> float | None:
    return None if begin_ns is None or end_ns is None else (end_ns - begin_ns) / NS_PER_MS


def per_second(amount: float | None, ms: float | None) -> float | None:
    """`amount` a second over `ms` milliseconds; null if either is unknown or no time passed."""
    return None if amount is None or ms is None or ms <= 0 else amount * 1e3 / ms


def decode_tokens(record: RequestRecord) -> int | None:
    """Tokens that came after the first event; null where its share of the output is unknown.

    A record without events (another tool's) is taken to have had one token in the first.
    """
    tokens = record.events.tokens
    if not tokens:
        return None if record.output_tokens is None else max(record.output_tokens - 1, 0)
    later = [count for count in tokens[1:] if count is not None]
    if len(later) == len(tokens) - 1:
        return sum(later)
    if tokens[0] is None or record.output_tokens is None:
        return None
    return record.output_tokens - tokens[0]


def chunk_gaps_ms(record: RequestRecord) -> FloatArray:
    """Times between one token-bearing event and the next; one less than there are events."""
    return np.diff(np.asarray(record.events.at_ns, dtype=np.float64)) / NS_PER_MS


def itl_ms(record: RequestRecord) -> FloatArray:
    """One value for each token after the first event: its event's gap over the event's tokens.

    An event of no token passes its gap on to the next; one of unknown count yields none.
    """
    events = zip(record.events.at_ns, record.events.tokens, strict=True)
    kept = [(at, count) for i, (at, count) in enumerate(events) if i == 0 or count != 0]
    if len(kept) < 2:
        return np.empty(0)
    at_ns = np.array([at for at, _ in kept], dtype=np.float64)
    counts = np.array([count or 0 for _, count in kept[1:]], dtype=np.int64)
    gaps = np.diff(at_ns) / NS_PER_MS
    return np.repeat(gaps / np.maximum(counts, 1), counts)


def ok_records(run: Run) -> list[RequestRecord]:
    """The requests that count for latency and token rates."""
    return [record for record in run.records if record.outcome == "ok"]


def duration_s(run: Run) -> float | None:
    """The measured time. Closed loop: of `windows`; open loop: as the run kept it.

    That of another tool's run is what it says.
    """
    header = run.header
    kept = None if header.duration_ns is None else max(header.duration_ns / NS_PER_S, 0.0)
    if kept is not None and (header.plan.load.kind == "open" or header.imported):
        return kept
    measured = windows(run.records)
    if not measured or not starts_known(run):
        return kept
    return sum(end - begin for begin, end in measured) / NS_PER_S


def windows(records: Iterable[RequestRecord]) -> list[tuple[int, int]]:
    """From first sent to last done, without the time in which other arms had their turn.

    That may lie between two repeats only; repeats that overlap are one window.
    """
    by_repeat: dict[int, list[RequestRecord]] = {}
    for record in records:
        by_repeat.setdefault(record.repeat, []).append(record)
    sent = [repeat for each in by_repeat.values() if (repeat := spans(each))]
    found: list[tuple[int, int]] = []
    for begin, end in sorted((min(b for b, _ in each), max(e for _, e in each)) for each in sent):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found


def starts_known(run: Run) -> bool:
    """Whether the requests' send times mean anything: other tools often do not keep them."""
    starts = {record.sent_ns for record in run.records}
    return run.header.imported is None or len(starts) > 1


def queues_known(run: Run) -> bool:
    """Whether requests say how long they waited to be sent: a tool that does not keep it has them
    scheduled when they were sent.
    """
    waited = any(record.sent_ns not in (None, record.scheduled_ns) for record in run.records)
    return run.header.imported is None or (waited and starts_known(run))


def concurrency(records: Iterable[RequestRecord], seconds: float | None) -> Concurrency:
    """Requests in flight and decoding, by a sweep over their begins and ends.

    Null where no send time is known, or an `ok` request lacks an instant that the figure needs.
    """
    records = tuple(records)
    ok = [record for record in records if record.outcome == "ok"]
    flights = spans(records)
    decoding = [
        (record.first_token_ns, max(record.first_token_ns, record.last_token_ns))
        for record in records
        if record.first_token_ns is not None and record.last_token_ns is not None
    ]
    ended = all(
        record.sent_ns is not None and (record.done_ns, record.last_token_ns) != (None, None)
        for record in ok
    )
    decoded = all(
        None not in (record.first_token_ns, record.last_token_ns) or record.output_tokens in (0, 1)
        for record in ok
    )
    return Concurrency(
        mean=_mean_open(flights, seconds) if flights and ended else None,
        peak=_peak(flights) if flights else None,
        decoding_mean=_mean_open(decoding, seconds) if flights and decoded else None,
    )


def spans(records: Iterable[RequestRecord]) -> list[tuple[int, int]]:
    """(sent, done) of each request that was sent; one without an end counts to its last token.

    Where the clock stepped back meanwhile, no time passed: nothing is in flight for less.
    """
    found = []
    for record in records:
        if record.sent_ns is not None:
            ends = (record.done_ns, record.last_token_ns, record.sent_ns)
            end = next(end for end in ends if end is not None)
            found.append((record.sent_ns, max(record.sent_ns, end)))
    return found


def _mean_open(spans: Sequence[tuple[int, int]], seconds: float | None) -> float | None:
    if not seconds:
        return None
    return sum(end - begin for begin, end in spans) / NS_PER_S / seconds


def _peak(spans: Sequence[tuple[int, int]]) -> int:
    """The most spans open at once; a span that ends as another begins is not open with it."""
    changes = [(begin, 1) for begin, _ in spans]
    changes += [(max(end, begin + 1), -1) for begin, end in spans]
    peak = open_now = 0
    for _, change in sorted(changes):
        open_now += change
        peak = max(peak, open_now)
    return peak
