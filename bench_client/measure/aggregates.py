"""Figures that are one number a run: throughput, energy, and what other tools printed.

Formulas: docs/method.md, "Ratios".
"""

import dataclasses
from collections.abc import Container, Iterable, Mapping, Sequence

import msgspec
import numpy as np

from bench_client.measure.caveats import TARGET
from bench_client.measure.figures import RATIOS, Ratio
from bench_client.measure.imported import printed, printed_count
from bench_client.measure.intervals import FEWEST_UNITS, Interval95, Units
from bench_client.measure.percentiles import split_name
from bench_client.measure.samples import Sample
from bench_client.measure.speculation import plain_step_ms
from bench_client.measure.stats import ratio_of, repeats_as_units
from bench_client.measure.summary import run_energy, run_seconds, run_speculation, throughput
from bench_client.measure.timeline import ok_records, windows
from bench_client.records import Run

Samples = Mapping[str, Sample]
RATES = ("output_tok_per_s", "total_tok_per_s", "request_per_s")


def ratios_of_aggregates(
    both: tuple[Run, Run], kept: tuple[Samples, Samples], names: Iterable[str], how: Interval95
) -> dict[str, Ratio]:
    """Of those of `names` that both runs have, if only as the mean of what requests had.

    With an interval where both have at least 3 repeats: each of them is a run of its own.
    """
    if not all(map(_answered, both)):
        return {}
    repeats = _repeats(both[0]), _repeats(both[1])
    found = {}
    for name in names:
        means = [_value(run, values, name) for run, values in zip(both, kept, strict=True)]
        if means[0] is None or means[1] is None:
            continue
        units = _units(repeats[0], name), _units(repeats[1], name)
        if units[0] and units[1]:
            found[name] = _of_repeats(name, units[0], units[1], how)
        else:
            found[name] = _without_interval(name, means[0], means[1])
    return found


def one_sided(
    both: tuple[Run, Run], kept: tuple[Samples, Samples], known: Container[str]
) -> dict[str, str]:
    """Which run has a figure that the other lacks, of those without a ratio."""
    found = {}
    for name in RATIOS:
        has = [
            _value(run, values, name) is not None for run, values in zip(both, kept, strict=True)
        ]
        if name not in known and has[0] != has[1]:
            found[name] = "the baseline" if has[0] else "the other run"
    return found


def _value(run: Run, kept: Samples, name: str) -> float | None:
    sample, whole = kept.get(name), _aggregate(run, name)
    if whole is None and sample is not None and len(sample.values):
        return sample.units().mean
    return whole


def _answered(run: Run) -> bool:
    return bool(run.header.imported or ok_records(run))


def _aggregate(run: Run, name: str) -> float | None:
    if rate := _rate(run, name):
        return rate[0] / rate[1]
    if name in RATES:
        return _throughput(run, name)
    if name == "output_tokens":
        total, ok = printed(run, "output_tokens"), printed_count(run, "requests.ok")
        return total / ok if total is not None and ok else None
    if name in ("accept_length", "step_ms") and not run.header.imported:
        return _of_speculation(run, name)
    if name == "accept_length":
        return printed(run, "speculation.accept_length")
    return printed(run, name if split_name(name)[1] else f"{name}.mean")


def _throughput(run: Run, name: str) -> float | None:
    rate: float | None = getattr(throughput(run), name)
    return rate


def _of_speculation(run: Run, name: str) -> float | None:
    """The headline, where requests' own counts are not known."""
    found = run_speculation(run)
    if found is None:
        return plain_step_ms(run) if name == "step_ms" else None
    return found.accept_length if name == "accept_length" else found.step_ms


def _rate(run: Run, name: str) -> tuple[float, float] | None:
    """Of a run of our own: how much, for how much."""
    if run.header.imported:
        return None
    if name in RATES:
        seconds, rate = run_seconds(run), _throughput(run, name)
        return (rate * seconds, seconds) if rate and seconds else None
    if name == "j_per_output_token":
        energy = run_energy(run)
        each = energy.j_per_output_token if energy else None
        return (energy.j, energy.j / each) if energy and each else None
    return None


def _repeats(run: Run) -> list[Run]:
    """Each repeat as a run, where there are enough and each had a time of its own."""
    numbers = sorted({record.repeat for record in run.records})
    if len(numbers) < FEWEST_UNITS or len(windows(run.records)) < len(numbers):
        return []
    return [
        msgspec.structs.replace(
            run, records=tuple(record for record in run.records if record.repeat == number)
        )
        for number in numbers
    ]


def _units(repeats: Sequence[Run], name: str) -> Units | None:
    """A unit each; null unless the figure is known of all."""
    rates = [rate for each in repeats if (rate := _rate(each, name))]
    if not rates or len(rates) < len(repeats):
        return None
    sums, counts = np.array(rates).T
    return Units(sums, counts)


def _of_repeats(name: str, baseline: Units, other: Units, how: Interval95) -> Ratio:
    """Paired in their order, as arms take turns, where the runs are and have as many."""
    paired = how.paired and baseline.n == other.n
    found = ratio_of(baseline, other, name, dataclasses.replace(how, paired=paired))
    if not paired or found.mdd is None:
        return found
    needed = repeats_as_units(found.mdd, baseline.n, TARGET)
    return msgspec.structs.replace(found, recommended_repeats=needed)


def _without_interval(name: str, baseline: float, other: float) -> Ratio:
    return Ratio(
        figure=name,
        ratio=other / baseline if baseline > 0 else None,
        ci95=None,
        paired=False,
        n=(1, 1),
        baseline_mean=baseline,
        other_mean=other,
    )
