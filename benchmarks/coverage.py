"""How often a nominal 95% interval holds the true value, by simulation.

    python benchmarks/coverage.py [EXPERIMENTS]

For each design and size: the project's interval, and plain BCa at the same number of resamples.
2,000 experiments take some minutes on one core; the standard error is then 0.5 points.
"""

import math
import sys
from collections.abc import Callable

import numpy as np

from bench_client.measure import intervals
from bench_client.measure.figures import Interval
from bench_client.measure.intervals import FloatArray, Units
from bench_client.measure.repeats import table_of, with_drift
from bench_client.measure.stats import paired_ratio
from bench_client.run.blocks import blocks

Experiment = Callable[[np.random.Generator, int], tuple[Interval | None, Interval | None, float]]


def paired(rng: np.random.Generator, n: int) -> tuple[Interval | None, Interval | None, float]:
    """Plain decoding at 44 tok/s against speculation whose speedup varies by prompt (sd 14%)."""
    baseline = rng.normal(44, 0.2, n)
    other = 44 * 2.04 * (1 + rng.normal(0, 0.14, n))
    return (*_ratio(baseline, other, True), 2.04)


def unpaired(rng: np.random.Generator, n: int) -> tuple[Interval | None, Interval | None, float]:
    """Two speculative systems on other prompts, spreads 5% and 14%."""
    baseline = 61.7 * (1 + rng.normal(0, 0.05, n))
    other = 89.7 * (1 + rng.normal(0, 0.14, n))
    return (*_ratio(baseline, other, False), 89.7 / 61.7)


def skewed(rng: np.random.Generator, n: int) -> tuple[Interval | None, Interval | None, float]:
    """The mean of a skewed latency (log-normal, sigma 0.5)."""
    units = Units.single(rng.lognormal(0, 0.5, n))
    return intervals.mean_interval(units, 0), _plain(units, None, False), math.exp(0.125)


def clustered(rng: np.random.Generator, n: int) -> tuple[Interval | None, Interval | None, float]:
    """Mean ITL: requests differ by 10%, and answers in length; tokens by 20% within a request."""
    lengths = rng.integers(50, 400, n)
    levels = 20 * (1 + rng.normal(0, 0.1, n))
    sums = levels * lengths + rng.normal(0, 4, n) * np.sqrt(lengths)
    units = Units(sums, lengths.astype(float))
    return intervals.mean_interval(units, 0), _plain(units, None, False), 20.0


def _ratio(
    baseline: np.ndarray, other: np.ndarray, pairs: bool
) -> tuple[Interval | None, Interval | None]:
    below, above = Units.single(baseline), Units.single(other)
    found = intervals.ratio_interval(below, above, intervals.Interval95(paired=pairs))
    return (found[0] if found else None), _plain(below, above, pairs)


def _plain(below: Units, above: Units | None, pairs: bool) -> Interval | None:
    """BCa at the nominal level, without the correction for few units."""

    def statistic(*index: np.ndarray, axis: int = -1) -> np.ndarray:
        base = below.resampled_mean(index[0], axis)
        return base if above is None else above.resampled_mean(index[-1], axis) / base

    sizes = (below.n,) if above is None or pairs else (below.n, above.n)
    return intervals.resampled(statistic, sizes, 0.95, 0, "BCa")


def covered(experiment: Experiment, n: int, times: int, seed: int = 1) -> tuple[float, float]:
    """Share of experiments whose interval holds the truth: the project's, plain BCa's."""
    rng = np.random.default_rng(seed)
    hits = [0, 0]
    for _ in range(times):
        *found, truth = experiment(rng, n)
        for i, interval in enumerate(found):
            hits[i] += interval is not None and interval[0] <= truth <= interval[1]
    return hits[0] / times, hits[1] / times


def false_alarms(repeats: int, drift: float, times: int, *, by_launch: bool) -> float:
    """Share of comparisons of an arm with itself that call it faster or slower.

    Eleven prompts with noise of 0.7% each in a ratio. `drift` is what a ratio varies by from repeat
    to repeat, or each arm's part of it from launch to launch, of which ABBA shares some.
    """
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(times):
        shift = _by_launch(rng, repeats, drift) if by_launch else rng.normal(0, drift, repeats)
        logs = shift + rng.normal(0, 0.007, (11, repeats))
        found = paired_ratio([1.0] * 11, list(np.exp(logs).mean(1)))
        table = table_of([dict(enumerate(row)) for row in logs])
        held = (with_drift(found, table) if table else found).ci95
        wrong += held is not None and not held[0] <= 1 <= held[1]
    return wrong / times


def _by_launch(rng: np.random.Generator, repeats: int, drift: float) -> FloatArray:
    """The ratio's shift in each repeat, where each launch of an arm has a speed of its own."""
    speeds = np.zeros((2, repeats))
    for block in blocks(2, repeats):
        speeds[block.arm, list(block.repeats)] = rng.normal(0, drift / math.sqrt(2))
    shift: FloatArray = speeds[1] - speeds[0]
    return shift


if __name__ == "__main__":
    experiments = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    intervals.RESAMPLES = 1999
    print(f"{experiments} experiments; share of 95% intervals that hold the truth")
    print(f"{'design':<10} {'n':>3} {'ours':>7} {'plain BCa':>10}")
    for design in (paired, unpaired, skewed, clustered):
        for size in (3, 5, 8, 11, 20, 50):
            ours, plain = covered(design, size, experiments)
            print(f"{design.__name__:<10} {size:>3} {ours:>7.1%} {plain:>10.1%}", flush=True)
    print("an arm against itself: share of comparisons that call it faster or slower")
    print(f"{'repeats':<8} {'drift':>6} {'by repeat':>10} {'by launch':>10}")
    for repeats in (1, 2, 3, 4, 6):
        for drift in (0.0, 0.002, 0.005, 0.01):
            shares = [
                false_alarms(repeats, drift, experiments // 2, by_launch=launch)
                for launch in (False, True)
            ]
            print(f"{repeats:<8} {drift:>6.1%} {shares[0]:>10.1%} {shares[1]:>10.1%}", flush=True)
