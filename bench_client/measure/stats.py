"""Values to distributions and ratios. Formulas: docs/method.md, "Distributions" to "Ratios"."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from bench_client.measure.figures import Ratio, Stat
from bench_client.measure.intervals import (
    FEWEST_UNITS,
    FloatArray,
    Interval95,
    Units,
    mean_interval,
    ratio_interval,
    t_quantile,
)

# The fewest values that put at least one beyond the percentile.
PERCENTILE_NEEDS = {"p50": 1, "p90": 10, "p95": 20, "p99": 100}
POWER = 0.80


def describe(
    values: Sequence[float] | FloatArray, seed: int = 0, units: Units | None = None
) -> Stat:
    """The distribution of `values`; `units` are what the interval resamples, else each value."""
    array = np.asarray(values, dtype=np.float64)
    n = len(array)
    if not n:
        return Stat(n=0)
    percentiles = {
        name: float(np.percentile(array, int(name[1:]))) if n >= needs else None
        for name, needs in PERCENTILE_NEEDS.items()
    }
    return Stat(
        n=n,
        mean=float(array.mean()),
        sd=float(array.std(ddof=1)) if n > 1 else None,
        ci95=mean_interval(units or Units.single(array), seed),
        min=float(array.min()),
        max=float(array.max()),
        **percentiles,
    )


def across_repeats(by_repeat: Mapping[int, Sequence[float]], seed: int = 0) -> Stat:
    """The distribution of the repeats' means: here the run is the unit, not the prompt."""
    means = [float(np.mean(by_repeat[repeat])) for repeat in sorted(by_repeat) if by_repeat[repeat]]
    return describe(means, seed)


def paired_ratio(
    baseline: Sequence[float] | Units,
    other: Sequence[float] | Units,
    figure: str = "",
    seed: int = 0,
) -> Ratio:
    """Ratio of means of two series of the same prompts in the same order.

    Raises:
        ValueError: the series differ in length.
    """
    below, above = _units(baseline), _units(other)
    if below.n != above.n:
        raise ValueError(f"{below.n} baseline values cannot be paired with {above.n}")
    return ratio_of(below, above, figure, Interval95(paired=True, seed=seed))


def unpaired_ratio(
    baseline: Sequence[float] | Units,
    other: Sequence[float] | Units,
    figure: str = "",
    seed: int = 0,
) -> Ratio:
    """Ratio of means of two independent series."""
    how = Interval95(paired=False, seed=seed)
    return ratio_of(_units(baseline), _units(other), figure, how)


def _units(values: Sequence[float] | Units) -> Units:
    return values if isinstance(values, Units) else Units.single(values)


def ratio_of(baseline: Units, other: Units, figure: str, how: Interval95) -> Ratio:
    """Ratio of means, with its interval and what it could have told from none."""
    means = [units.mean if units.n else None for units in (baseline, other)]
    known = all(mean is not None and mean > 0 for mean in means)
    found = ratio_interval(baseline, other, how) if known else None
    return Ratio(
        figure=figure,
        ratio=other.mean / baseline.mean if known else None,
        ci95=found[0] if found else None,
        paired=how.paired,
        n=(baseline.n, other.n),
        baseline_mean=means[0],
        other_mean=means[1],
        mdd=detectable(found[1].error, found[1].freedom) if found else None,
    )


def detectable(log_error: float, freedom: float) -> float:
    """The smallest relative difference seen with 80% power by a two-sided test at 5%."""
    if not log_error:
        return 0.0
    return math.expm1(two_sided(freedom) * log_error)


def two_sided(freedom: float) -> float:
    """How many standard errors a difference must have to be seen with 80% power."""
    return t_quantile(freedom, 0.975) + t_quantile(freedom, POWER)


def repeats_as_units(mdd: float, repeats: int, target: float = 0.02) -> int:
    """The same where repeats themselves were paired, for want of prompts."""
    return max(FEWEST_UNITS, math.ceil(repeats * (math.log1p(mdd) / math.log1p(target)) ** 2))
