"""Ratios of percentiles, such as `ttft_ms.p99`. See docs/method.md, "Ratios of percentiles"."""

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

from bench_client.measure.figures import RATIOS, Interval, Ratio
from bench_client.measure.intervals import BOOTSTRAP_UNITS, FloatArray
from bench_client.measure.samples import Sample
from bench_client.measure.stats import PERCENTILE_NEEDS

# Of all the work together, which have no percentile.
_POOLED = (
    "tps_e2e_pooled",
    "accept_length",
    "output_tok_per_s",
    "total_tok_per_s",
    "request_per_s",
    "j_per_output_token",
)
_FIGURES = tuple(figure for figure in RATIOS if figure not in _POOLED)
NAMES = tuple(f"{figure}.{percentile}" for figure in _FIGURES for percentile in PERCENTILE_NEEDS)
RESAMPLES = 1999


def split_name(name: str) -> tuple[str, str]:
    """`ttft_ms.p99` -> its figure and its percentile; the latter is empty for a mean."""
    figure, _, percentile = name.partition(".")
    return figure, percentile


def percentile_ratio(below: Sample, above: Sample, name: str, paired: bool, seed: int) -> Ratio:
    """The ratio of one percentile, with its interval by the bootstrap over units.

    `n` counts values. Without as many as the percentile needs on both sides the ratio is null, and
    with fewer than 8 units the interval.
    """
    percentile = split_name(name)[1]
    sides = _Values.both(below, above, paired)
    n = len(sides[0].values), len(sides[1].values)
    known = min(n) >= PERCENTILE_NEEDS[percentile]
    share = int(percentile[1:]) / 100
    means = [side.at(share) if known else None for side in sides]
    ratio = means[1] / means[0] if means[0] and means[1] is not None else None
    return Ratio(
        figure=name,
        ratio=ratio,
        ci95=None if ratio is None else _interval(sides, share, paired, seed),
        paired=paired,
        n=n,
        baseline_mean=means[0],
        other_mean=means[1],
    )


class _Values:
    """A figure's values in ascending order, and the unit that each is of, by number."""

    def __init__(self, sample: Sample, labels: list[Hashable]) -> None:
        numbers = {label: i for i, label in enumerate(labels)}
        by_request = np.array([numbers.get(label, -1) for label in sample.labels], dtype=np.intp)
        units = np.repeat(by_request, sample.counts.astype(np.intp))
        kept = np.flatnonzero(units >= 0)
        order = kept[np.argsort(sample.values[kept], kind="stable")]
        self.values: FloatArray = sample.values[order]
        self.units: npt.NDArray[np.intp] = units[order]
        self.held = len(labels)

    @classmethod
    def both(cls, below: Sample, above: Sample, paired: bool) -> tuple["_Values", "_Values"]:
        """Of two runs; paired, units are the same prompts under the same number."""
        labels = [list(dict.fromkeys(sample.labels)) for sample in (below, above)]
        if paired:
            theirs = set(labels[1])
            labels = [[label for label in labels[0] if label in theirs]] * 2
        return cls(below, labels[0]), cls(above, labels[1])

    def at(self, share: float, picked: npt.NDArray[np.intp] | None = None) -> float:
        """The percentile, by linear interpolation; `picked` says how often each unit counts."""
        values = self.values if picked is None else np.repeat(self.values, picked[self.units])
        if not len(values):
            return np.nan
        place = share * (len(values) - 1)
        low = int(place)
        high = min(low + 1, len(values) - 1)
        return float(values[low] + (place - low) * (values[high] - values[low]))


def _interval(
    sides: tuple[_Values, _Values], share: float, paired: bool, seed: int
) -> Interval | None:
    """The bootstrap's own percentiles: there is no delta method for an order statistic."""
    if min(side.held for side in sides) < BOOTSTRAP_UNITS.start:
        return None
    random = np.random.default_rng(seed)
    ratios = []
    for _ in range(RESAMPLES):
        below = _picked(random, sides[0].held)
        above = below if paired else _picked(random, sides[1].held)
        base = sides[0].at(share, below)
        ratios.append(sides[1].at(share, above) / base if base > 0 else np.nan)
    low, high = np.percentile(ratios, (2.5, 97.5))
    return None if np.isnan(low) or np.isnan(high) else (float(low), float(high))


def _picked(random: np.random.Generator, units: int) -> npt.NDArray[np.intp]:
    """How often each unit is in a resample of as many."""
    return np.bincount(random.integers(0, units, units), minlength=units)
