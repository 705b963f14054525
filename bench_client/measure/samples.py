"""A run's values, figure by figure and request by request: what distributions and ratios rest on.

Formulas: docs/method.md, "Distributions" and "Repeats".
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from bench_client.measure.imported import imported_samples
from bench_client.measure.intervals import FEWEST_UNITS, FloatArray, Units
from bench_client.measure.speculation import Steps, request_step_ms, steps_by_request
from bench_client.measure.timeline import (
    RequestFigures,
    chunk_gaps_ms,
    duration_s,
    itl_ms,
    ok_records,
    queues_known,
    request_figures,
    spans,
)
from bench_client.records import RequestRecord, Run

Key = Callable[[RequestRecord], Hashable]

PER_REQUEST = ("ttft_ms", "e2e_ms", "tpot_ms", "tps_e2e", "tps_decode")
FROM_SCHEDULE = ("ttft_from_schedule_ms", "e2e_from_schedule_ms")


@dataclass(frozen=True)
class Sample:
    """One figure: all `values`, and by request their sum, their number and the unit it is of."""

    values: FloatArray
    sums: FloatArray
    counts: FloatArray
    labels: tuple[Hashable, ...]

    @classmethod
    def of_values(cls, values: Sequence[float], labels: Sequence[Hashable]) -> "Sample":
        """One value a request."""
        array = np.asarray(values, dtype=np.float64)
        return cls(array, array, np.ones_like(array), tuple(labels))

    @classmethod
    def of_lists(cls, lists: Sequence[FloatArray], labels: Sequence[Hashable]) -> "Sample":
        """Several values a request; requests without any are left out."""
        held = [(values, label) for values, label in zip(lists, labels, strict=True) if len(values)]
        return cls(
            np.concatenate([values for values, _ in held]) if held else np.empty(0),
            np.array([values.sum() for values, _ in held]),
            np.array([float(len(values)) for values, _ in held]),
            tuple(label for _, label in held),
        )

    def units(self) -> Units:
        """Requests with the same label together."""
        return Units.grouped(self.sums, self.labels, self.counts)

    def averaged(self) -> dict[Hashable, tuple[float, float]]:
        """Sum and count by label, each averaged over the requests with that label."""
        rows: dict[Hashable, list[tuple[float, float]]] = {}
        for label, total, count in zip(self.labels, self.sums, self.counts, strict=True):
            rows.setdefault(label, []).append((float(total), float(count)))
        return {
            label: (
                sum(total for total, _ in parts) / len(parts),
                sum(count for _, count in parts) / len(parts),
            )
            for label, parts in rows.items()
        }


def prompt_key(run: Run) -> Key:
    """What makes two requests one prompt: its text; in a chain, where that varies, its place."""
    by_place = run.header.plan.chained or not all(each.prompt_sha256 for each in run.records)
    return (lambda record: record.prompt_index) if by_place else (lambda each: each.prompt_sha256)


def unit_key(run: Run) -> Key:
    """The unit of a run's intervals: the prompt; where there are too few of them, its place in the
    plan, then the repeat.
    """
    ok = ok_records(run)
    by_prompt = prompt_key(run)
    keys: tuple[Key, ...] = (by_prompt, lambda r: r.prompt_index, lambda r: r.repeat)
    return next((key for key in keys if len(set(map(key, ok))) >= FEWEST_UNITS), by_prompt)


def samples(run: Run, key: Key, speculates: bool) -> dict[str, Sample]:
    """Every figure's sample; of another tool's run what that tool kept, value by value.

    `speculates` decides whether a step is a verify step or a token.
    """
    found = _recorded(run, key, speculates)
    for name, values in imported_samples(run).items():
        found[name] = Sample.of_values(values, range(len(values)))
    return found


def _recorded(run: Run, key: Key, speculates: bool) -> dict[str, Sample]:
    ok = ok_records(run)
    measured = [(record, request_figures(record)) for record in ok]
    names = list(PER_REQUEST)
    if queues_known(run):
        names += ["queue_ms"]
        names += FROM_SCHEDULE if run.header.plan.load.kind == "open" else []
    found = {name: _scalar(measured, key, name) for name in names}
    steps_of = steps_by_request(run)
    found["step_ms"] = _known(
        [(key(each), request_step_ms(each, steps_of(each), speculates)) for each in ok]
    )
    found["tps_e2e_pooled"] = _pooled(measured, key)
    if run.header.plan.load.kind == "closed" and not run.header.imported:
        found["output_tok_per_s"] = _throughput(run, key)
    found["output_tokens"] = _known([(key(each), each.output_tokens) for each in ok])
    labels = [key(record) for record in ok]
    found["chunk_gap_ms"] = Sample.of_lists([chunk_gaps_ms(record) for record in ok], labels)
    found["itl_ms"] = Sample.of_lists([itl_ms(record) for record in ok], labels)
    if speculates:
        found["accept_length"] = _accept([(key(each), steps_of(each)) for each in ok])
    return found


def _scalar(
    measured: Sequence[tuple[RequestRecord, RequestFigures]], key: Key, name: str
) -> Sample:
    return _known([(key(record), getattr(figures, name)) for record, figures in measured])


def _pooled(measured: Sequence[tuple[RequestRecord, RequestFigures]], key: Key) -> Sample:
    """Tokens over seconds, so that the mean is the whole work's rate: all tokens over all time."""
    known = [
        (key(record), record.output_tokens, figures.e2e_ms / 1e3)
        for record, figures in measured
        if record.output_tokens and figures.e2e_ms
    ]
    tokens = np.array([float(count) for _, count, _ in known])
    seconds = np.array([second for _, _, second in known])
    return Sample(tokens / seconds, tokens, seconds, tuple(label for label, _, _ in known))


def _throughput(run: Run, key: Key) -> Sample:
    """Mean concurrency x tokens over seconds in flight: its mean is all tokens over the duration.

    Empty where a count is missing, as the figure itself is null then.
    """
    ok, whole_s = ok_records(run), duration_s(run)
    flights = [(end - begin) / 1e9 for begin, end in spans(ok)]
    tokens = [record.output_tokens for record in ok]
    if not whole_s or None in tokens or len(flights) != len(ok) or not all(flights):
        return _known([])
    seconds = np.array(flights)
    made = np.array(tokens, dtype=np.float64) * seconds.sum() / whole_s
    return Sample(made / seconds, made, seconds, tuple(key(record) for record in ok))


def _known(pairs: Sequence[tuple[Hashable, float | None]]) -> Sample:
    known = [(label, value) for label, value in pairs if value is not None]
    return Sample.of_values([value for _, value in known], [label for label, _ in known])


def _accept(pairs: Sequence[tuple[Hashable, Steps | None]]) -> Sample:
    """Tokens over steps, so that the mean is the headline's: all tokens over all steps."""
    known = [(label, steps) for label, steps in pairs if steps]
    return Sample(
        values=np.array([steps.accept_length for _, steps in known]),
        sums=np.array([float(steps.tokens) for _, steps in known]),
        counts=np.array([float(steps.steps) for _, steps in known]),
        labels=tuple(label for label, _ in known),
    )
