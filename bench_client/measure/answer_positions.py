"""Accept length along the answer. Formulas: docs/method.md, "Accept length along the answer"."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bench_client.measure.figures import AnswerPart
from bench_client.measure.intervals import FloatArray, Interval95, Units, ratio_interval
from bench_client.measure.samples import unit_key
from bench_client.measure.speculation import counted_steps, most_per_step
from bench_client.measure.timeline import ok_records
from bench_client.records import RequestRecord, Run

# Where each part but the first begins. Each is twice as long as the one before, as steps get rare
# late, and heads are trained to lengths of this kind.
EDGES = (32, 64, 128, 256, 512, 1024, 2048, 4096)


class Parts(NamedTuple):
    """Where `parts` is empty, `note` says why; else it tells which answers are left out."""

    parts: tuple[AnswerPart, ...]
    note: str | None


class _Proven(NamedTuple):
    """Answers whose events are one verify step each, and why there are no more of them."""

    records: Sequence[RequestRecord]
    note: str | None


def answer_parts(run: Run) -> Parts:
    """By parts of the answer, from events that are proven to be one verify step each.

    Of joined events one cannot know where the steps began, so such answers are left out.
    """
    proven = _proven(run)
    parts = _parts(run, proven.records) if proven.records else ()
    if proven.records and not parts:
        return Parts((), "no verify step begins so early that its answer's end cannot have cut it")
    return Parts(parts, proven.note)


def _proven(run: Run) -> _Proven:
    ok = ok_records(run)
    known = [record for record in ok if _counts_known(record)]
    if not known:
        return _Proven((), "the tokens of single events are not known")
    if any(record.accept for record in known):
        return _by_answer(known, len(ok))
    return _by_counters(run, known)


def _counts_known(record: RequestRecord) -> bool:
    exact = record.token_count_source in ("token_ids", "usage_delta", "native")
    return exact and bool(record.events.tokens) and None not in record.events.tokens


def _by_answer(known: Sequence[RequestRecord], answers: int) -> _Proven:
    """The server's own count of each answer's steps decides."""
    single = [each for each in known if each.accept and _fewest_steps(each) == _told(each)]
    if not single:
        return _Proven((), "no answer has an event for each of its verify steps")
    left_out = f"of {len(single)} of {answers} answers: events of the others are not one step each"
    return _Proven(single, left_out if len(single) < answers else None)


def _told(record: RequestRecord) -> int | None:
    return record.accept.verify_steps if record.accept else None


def _by_counters(run: Run, known: Sequence[RequestRecord]) -> _Proven:
    """The server's count over the window decides, for all answers at once."""
    counted = counted_steps(run.header.server)
    if counted is None:
        return _Proven((), "nothing counts the verify steps, so an event may be several")
    if len(known) < len(run.records):
        return _Proven((), "the counted verify steps are also those of requests that are not known")
    seen, steps = sum(map(_fewest_steps, known)), round(counted.steps)
    if seen != steps:
        return _Proven((), f"the events tell of {seen} verify steps and the server of {steps}")
    return _Proven(known, None)


def _fewest_steps(record: RequestRecord) -> int:
    """Steps if no event after the first holds more than one.

    The first event holds one if it has more than the prefill's token, or that is out of a step too.
    """
    first, *later = (count or 0 for count in record.events.tokens)
    accept = record.accept
    all_stepped = bool(accept and accept.tokens and accept.tokens >= first + sum(later))
    return sum(count > 0 for count in later) + (first > 1 or all_stepped)


def _longest_step(run: Run, records: Sequence[RequestRecord]) -> int:
    """The most tokens that a step of this run can yield; of those seen, where no depth is known."""
    server = run.header.server
    return max(
        most_per_step(record, server) or max((n or 0 for n in record.events.tokens[1:]), default=0)
        for record in records
    )


def _placed(record: RequestRecord, longest: int) -> FloatArray:
    """Tokens and steps by part; a step belongs to the part in which it begins, with all tokens.

    Only steps that begin `longest` tokens before the answer's end or earlier, whatever they yield:
    without the last ones, or without those that were cut, the long ones would be missing.
    """
    counts = np.array(record.events.tokens)
    begins = np.cumsum(counts) - counts
    steps = np.flatnonzero(counts[1:]) + 1
    steps = steps[begins[steps] + longest <= counts.sum()]
    part = np.searchsorted(EDGES, begins[steps], side="right")
    size = len(EDGES) + 1
    tokens = np.bincount(part, weights=counts[steps], minlength=size)
    return np.array([tokens, np.bincount(part, minlength=size)])


def _parts(run: Run, records: Sequence[RequestRecord]) -> tuple[AnswerPart, ...]:
    longest = _longest_step(run, records)
    placed = np.array([_placed(record, longest) for record in records])
    tokens, steps = placed[:, 0], placed[:, 1]
    whole = tokens.sum(1) / np.maximum(steps.sum(1), 1)
    key = unit_key(run)
    labels = [key(record) for record in records]
    found = []
    for part in map(int, np.flatnonzero(steps.sum(0))):
        there = [i for i in range(len(records)) if steps[i, part]]
        own = [labels[i] for i in there]
        counts = steps[there, part]
        seen = Units.grouped(tokens[there, part], own, counts)
        expected = Units.grouped(whole[there] * counts, own, counts)
        spread = ratio_interval(expected, seen, Interval95(True, run.header.plan.seed))
        found.append(
            AnswerPart(
                begin=EDGES[part - 1] if part else 0,
                end=EDGES[part] - 1 if part < len(EDGES) else None,
                answers=len(there),
                steps=int(counts.sum()),
                accept_length=seen.mean,
                relative=seen.mean / expected.mean,
                relative_ci95=spread[0] if spread else None,
            )
        )
    return tuple(found)
