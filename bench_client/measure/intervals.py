"""95% intervals of a mean and of a ratio of means. Formulas: docs/method.md, "Intervals"."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bench_client.measure.figures import Interval

FloatArray = npt.NDArray[np.float64]
Statistic = Callable[..., Any]
Method = Literal["BCa", "percentile"]

FEWEST_UNITS = 3
# Below, the few distinct resamples cannot reach far enough; above, Student's t says the same.
BOOTSTRAP_UNITS = range(8, 501)
RESAMPLES = 9999  # a fifth of it above 100 units, where the ends are steadier
ROUNDING = 1e-9  # relative spread under which values are taken to be equal


@dataclass(frozen=True)
class Units:
    """What is resampled: unit i (a prompt, say) holds `counts[i]` values that add up to `sums[i]`.

    The mean is that of all values, so a unit weighs as much as it holds.
    """

    sums: FloatArray
    counts: FloatArray

    @classmethod
    def single(cls, values: Sequence[float] | FloatArray) -> "Units":
        """Each value a unit of its own."""
        sums = np.asarray(values, dtype=np.float64)
        return cls(sums, np.ones_like(sums))

    @classmethod
    def grouped(
        cls, sums: FloatArray, labels: Sequence[Hashable], counts: FloatArray | None = None
    ) -> "Units":
        """Parts with the same label are one unit; each holds one value if `counts` is left out."""
        numbers: dict[Hashable, int] = {}
        index = [numbers.setdefault(label, len(numbers)) for label in labels]
        unit_sums, unit_counts = np.zeros(len(numbers)), np.zeros(len(numbers))
        np.add.at(unit_sums, index, sums)
        np.add.at(unit_counts, index, 1.0 if counts is None else counts)
        return cls(unit_sums, unit_counts)

    @property
    def n(self) -> int:
        """How many units there are."""
        return len(self.sums)

    @property
    def mean(self) -> float:
        """Mean of all values; nan if there is none."""
        held = float(self.counts.sum())
        return float(self.sums.sum()) / held if held else math.nan

    @property
    def pulls(self) -> FloatArray:
        """How far each unit pulls the mean, n times over: the mean's linear part, mean 0."""
        pulls: FloatArray = (self.sums - self.mean * self.counts) / self.counts.mean()
        return pulls

    def resampled_mean(self, index: npt.NDArray[np.intp], axis: int) -> FloatArray:
        """Means of the units picked by `index` along `axis`."""
        means: FloatArray = self.sums[index].sum(axis) / self.counts[index].sum(axis)
        return means


@dataclass(frozen=True)
class Spread:
    """Uncertainty of an estimate: standard error, degrees of freedom, and the bootstrap's error.

    `resampled` is the standard error that resampling shows; it is too small by (n - 1) / n in
    variance, since it divides by n.
    """

    error: float
    resampled: float
    freedom: float


@dataclass(frozen=True)
class Interval95:
    """How a ratio's interval is made: of pairs or of two series, and as wide as Student's t.

    Not widened it is the plain percentile bootstrap, which is what published intervals are.
    """

    paired: bool
    seed: int = 0
    widened: bool = True


def mean_interval(units: Units, seed: int) -> Interval | None:
    """95% interval of the mean; null under 3 units, (mean, mean) if all are equal."""
    if units.n < FEWEST_UNITS:
        return None
    mean = units.mean
    spread = _spread(units.pulls)
    if spread.error <= ROUNDING * abs(mean):
        return mean, mean

    def statistic(index: npt.NDArray[np.intp], axis: int = -1) -> FloatArray:
        return units.resampled_mean(index, axis)

    found = _bootstrap(statistic, (units.n,), widened_level(spread), seed)
    return found or _student(units, spread)


def _student(units: Units, spread: Spread) -> Interval:
    """Student's t; on the logarithm of the mean (delta method) where no unit is 0 or less."""
    mean, half = units.mean, t_quantile(spread.freedom, 0.975) * spread.error
    if not (units.sums > 0).all():
        return mean - half, mean + half
    factor = math.exp(half / mean)
    return mean / factor, mean * factor


def ratio_spread(baseline: Units, other: Units, paired: bool) -> Spread:
    """Of the logarithm of the ratio of means (delta method); Welch's freedom where unpaired."""
    below, above = baseline.pulls / baseline.mean, other.pulls / other.mean
    if paired:
        return _spread(above - below)
    parts = _spread(below), _spread(above)
    error = math.hypot(*(part.error for part in parts))
    resampled = math.hypot(*(part.resampled for part in parts))
    fourth = sum(part.error**4 / part.freedom for part in parts)
    freedom = error**4 / fourth if fourth else math.inf
    return Spread(error, resampled, freedom)


def ratio_interval(
    baseline: Units, other: Units, how: Interval95
) -> tuple[Interval, Spread] | None:
    """95% interval of other's mean over baseline's; null under 3 units on either side."""
    if min(baseline.n, other.n) < FEWEST_UNITS:
        return None
    ratio = other.mean / baseline.mean
    spread = ratio_spread(baseline, other, how.paired)
    if spread.error <= ROUNDING:
        return (ratio, ratio), spread

    def of_pairs(index: npt.NDArray[np.intp], axis: int = -1) -> FloatArray:
        return other.resampled_mean(index, axis) / baseline.resampled_mean(index, axis)

    def of_both(
        below: npt.NDArray[np.intp], above: npt.NDArray[np.intp], axis: int = -1
    ) -> FloatArray:
        return other.resampled_mean(above, axis) / baseline.resampled_mean(below, axis)

    sizes = (baseline.n,) if how.paired else (baseline.n, other.n)
    statistic = of_pairs if how.paired else of_both
    level = widened_level(spread) if how.widened else 0.95
    found = _bootstrap(statistic, sizes, level, how.seed, "BCa" if how.widened else "percentile")
    factor = math.exp(t_quantile(spread.freedom, 0.975) * spread.error)
    return found or (ratio / factor, ratio * factor), spread


def _spread(pulls: FloatArray) -> Spread:
    n = len(pulls)
    return Spread(
        error=float(pulls.std(ddof=1)) / math.sqrt(n),
        resampled=float(pulls.std()) / math.sqrt(n),
        freedom=n - 1,
    )


def _bootstrap(
    statistic: Statistic, sizes: tuple[int, ...], level: float, seed: int, method: Method = "BCa"
) -> Interval | None:
    """At `level`; null where it has no answer."""
    if not all(size in BOOTSTRAP_UNITS for size in sizes):
        return None
    return resampled(statistic, sizes, level, seed, method)


def resampled(
    statistic: Statistic, sizes: tuple[int, ...], level: float, seed: int, method: Method
) -> Interval | None:
    """Bootstrap interval of a statistic of indices, one array of them for each of `sizes`."""
    from scipy.stats import bootstrap  # noqa: PLC0415 (slow to import)

    found = bootstrap(
        tuple(np.arange(size) for size in sizes),
        statistic,
        n_resamples=RESAMPLES if max(sizes) <= 100 else RESAMPLES // 5,
        confidence_level=level,
        method=method,
        vectorized=True,
        rng=np.random.default_rng(seed),
    ).confidence_interval
    low, high = float(found.low), float(found.high)
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def widened_level(spread: Spread) -> float:
    """The nominal level at which a bootstrap interval is as wide as Student's t at 95%."""
    from scipy.special import ndtr  # noqa: PLC0415 (slow to import)

    width = t_quantile(spread.freedom, 0.975) * spread.error / spread.resampled
    return float(2 * ndtr(width) - 1)


def t_quantile(freedom: float, share: float) -> float:
    """Quantile of Student's t; of the normal distribution for infinite freedom."""
    from scipy.special import ndtri, stdtrit  # noqa: PLC0415 (slow to import)

    return float(ndtri(share) if math.isinf(freedom) else stdtrit(freedom, share))
