"""Distributions, intervals, ratios: by hand, against published figures, by simulation."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_client.measure import intervals
from bench_client.measure.intervals import Interval95, Units, mean_interval, ratio_interval
from bench_client.measure.stats import (
    across_repeats,
    describe,
    detectable,
    paired_ratio,
    repeats_as_units,
    unpaired_ratio,
)

from .published import EAGLE3, SGLANG, SGLANG_EAGLE3, VLLM, VLLM_EAGLE3


def test_describe_by_hand() -> None:
    stat = describe([1, 2, 3, 4])
    assert (stat.n, stat.mean, stat.p50, stat.min, stat.max) == (4, 2.5, 2.5, 1, 4)
    assert stat.sd == pytest.approx(math.sqrt(5 / 3))
    # Student's t with 3 degrees of freedom, of the logarithm: 3.182 x 1.291 / 2 / 2.5.
    factor = math.exp(2.0542 / 2.5)
    assert stat.ci95 == pytest.approx((2.5 / factor, 2.5 * factor), abs=1e-3)
    # With a value of 0 there is no logarithm.
    half = 3.1824 * 2.5 / 2  # sd of 0, 0, 0, 5 is 2.5
    assert describe([0, 0, 0, 5]).ci95 == pytest.approx((1.25 - half, 1.25 + half), abs=1e-3)


def test_an_interval_of_few_latencies_stays_above_0() -> None:
    low, high = describe([40.0, 60.0, 1100.0]).ci95 or (-1, -1)
    assert 0 < low < 400 < high


@pytest.mark.parametrize(
    ("n", "known"),
    [
        (1, ["p50"]),
        (9, ["p50"]),
        (10, ["p50", "p90"]),
        (20, ["p50", "p90", "p95"]),
        (99, ["p50", "p90", "p95"]),
        (100, ["p50", "p90", "p95", "p99"]),
    ],
)
def test_percentiles_need_values(n: int, known: list[str]) -> None:
    stat = describe(list(range(n)))
    assert [p for p in ("p50", "p90", "p95", "p99") if getattr(stat, p) is not None] == known
    assert stat.p50 == (n - 1) / 2


def test_nothing_one_and_two_values() -> None:
    assert describe([]).mean is None
    assert describe([7.0]).sd is None
    assert describe([7.0, 8.0]).ci95 is None
    assert describe([7.0, 8.0, 9.0]).ci95 is not None


@pytest.mark.parametrize("n", [3, 11, 600])
def test_equal_values_have_an_interval_of_no_width(n: int) -> None:
    assert describe([0.1 + 0.2] * n).ci95 == pytest.approx((0.3, 0.3))
    assert describe([0.0] * n).ci95 == (0, 0)


def test_the_seed_decides_and_nothing_else() -> None:
    values = [*SGLANG_EAGLE3]
    assert describe(values, 3) == describe(values, 3)
    assert describe(values, 3).ci95 != describe(values, 4).ci95


@given(st.lists(st.floats(0.1, 1e4), min_size=3, max_size=40))
@settings(max_examples=40, deadline=None)
def test_an_interval_is_finite_and_in_order(values: list[float]) -> None:
    low, high = describe(values).ci95 or (math.nan, math.nan)
    assert low <= high
    assert math.isfinite(low + high)


def test_clusters_are_resampled_whole() -> None:
    """A thousand tokens of three requests are three observations, not a thousand."""
    requests = [np.full(500, 10.0), np.full(300, 11.0), np.full(200, 12.0)]
    values = np.concatenate(requests)
    units = Units(np.array([r.sum() for r in requests]), np.array([500.0, 300.0, 200.0]))
    clustered = describe(values, 0, units)
    assert clustered.mean == pytest.approx(10.7)
    alone = describe(values)
    assert clustered.ci95 is not None
    assert alone.ci95 is not None
    # By hand: residuals (sum - mean x count) / mean count, their sd / sqrt(3), t = 4.303.
    pulls = np.array([500 * -0.7, 300 * 0.3, 200 * 1.3]) / (1000 / 3)
    half = 4.3027 * pulls.std(ddof=1) / math.sqrt(3)
    factor = math.exp(half / 10.7)
    assert clustered.ci95 == pytest.approx((10.7 / factor, 10.7 * factor), abs=1e-3)
    assert alone.ci95[1] - alone.ci95[0] < (clustered.ci95[1] - clustered.ci95[0]) / 10


def test_repeats_of_a_prompt_narrow_nothing_by_themselves() -> None:
    once = [*SGLANG_EAGLE3]
    thrice = once * 3
    grouped = Units.grouped(np.array(thrice), list(range(11)) * 3)
    assert describe(thrice, 0, grouped).ci95 == pytest.approx(describe(once, 0).ci95)


def test_across_repeats_the_run_is_the_unit() -> None:
    stat = across_repeats({0: [1, 3], 2: [5], 1: [2, 4], 3: []})
    assert (stat.n, stat.mean) == pytest.approx((3, 10 / 3))
    assert stat.sd == pytest.approx(np.std([2, 3, 5], ddof=1))


# Two notes measured Qwen3-8B on an L40; their speedups with plain independent bootstraps (20,000
# resamples, percentiles) were worked out apart from this code.
PUBLISHED = [
    (VLLM, VLLM_EAGLE3, 1.444, (1.404, 1.493)),
    (SGLANG, SGLANG_EAGLE3, 2.039, (1.882, 2.195)),
    (VLLM_EAGLE3, SGLANG_EAGLE3, 1.454, (1.335, 1.576)),
    (VLLM, SGLANG, 1.030, (1.027, 1.034)),
    (VLLM, EAGLE3, 1.402, (1.347, 1.460)),
    (EAGLE3, VLLM_EAGLE3, 1.030, (0.980, 1.084)),
    (EAGLE3, SGLANG_EAGLE3, 1.497, (1.370, 1.627)),
]


@pytest.mark.parametrize(("baseline", "other", "ratio", "interval"), PUBLISHED)
def test_published_speedups(
    baseline: tuple[float, ...],
    other: tuple[float, ...],
    ratio: float,
    interval: tuple[float, float],
) -> None:
    found = unpaired_ratio(baseline, other)
    assert found.ratio == pytest.approx(ratio, abs=0.0006)
    # The bootstrap by which imported runs are compared gives the published interval ...
    how = Interval95(paired=False, widened=False)
    plain = ratio_interval(Units.single(baseline), Units.single(other), how)
    assert plain is not None
    assert plain[0] == pytest.approx(interval, abs=0.003)
    # ... and ours is wider by what few prompts cost: 4 to 35% on these.
    assert found.ci95 is not None
    width = (found.ci95[1] - found.ci95[0]) / (interval[1] - interval[0])
    assert 1.04 < width < 1.35
    assert (found.ci95[0] > 1) == (interval[0] > 1)


def test_detectable_difference_by_hand() -> None:
    # Welch: both arms n = 11, relative standard errors 1% each: error sqrt(2)%, 20 degrees.
    assert detectable(0.0141421, 20) == pytest.approx(
        math.expm1((2.0860 + 0.8600) * 0.0141421), 1e-3
    )
    assert detectable(0.0, 10) == 0


def test_pairing_removes_what_prompts_share() -> None:
    baseline = [20.0, 40, 60, 80, 100, 30, 50, 70, 90, 110]
    other = [2 * value + wobble for value, wobble in zip(baseline, [1, -1] * 5, strict=True)]
    together, apart = paired_ratio(baseline, other), unpaired_ratio(baseline, other)
    assert together.ratio == apart.ratio == 2
    assert together.ci95 is not None
    assert apart.ci95 is not None
    assert 1.96 < together.ci95[0] < 2 < together.ci95[1] < 2.04
    assert apart.ci95[0] < 1.5
    assert together.mdd is not None
    assert apart.mdd is not None
    assert together.mdd < 0.02 < apart.mdd
    assert (together.paired, together.n) == (True, (10, 10))


def test_ratios_without_an_answer() -> None:
    assert unpaired_ratio([], [1.0]).ratio is None
    assert unpaired_ratio([0.0] * 3, [1.0] * 3).ratio is None
    assert unpaired_ratio([1.0, 2.0], [1.0, 2.0, 3.0]).ci95 is None
    assert paired_ratio([2.0] * 5, [3.0] * 5).ci95 == (1.5, 1.5)
    with pytest.raises(ValueError, match="2 baseline values cannot be paired with 1"):
        paired_ratio([1.0, 2.0], [1.0])


@given(st.lists(st.tuples(st.floats(1, 100), st.floats(1, 100)), min_size=8, max_size=20))
@settings(max_examples=25, deadline=None)
def test_an_interval_is_about_its_ratio_and_both_are_positive(
    pairs: list[tuple[float, float]],
) -> None:
    baseline, other = zip(*pairs, strict=True)
    for found in (paired_ratio(baseline, other), unpaired_ratio(baseline, other)):
        assert found.ci95 is not None
        assert found.ratio is not None
        assert 0 < found.ci95[0] <= found.ratio * (1 + 1e-9)
        assert found.ratio <= found.ci95[1] * (1 + 1e-9)


def test_repeats_where_they_are_the_units() -> None:
    assert repeats_as_units(0.04, 5) == math.ceil(5 * (math.log(1.04) / math.log(1.02)) ** 2)
    assert repeats_as_units(0.001, 5) == 3


def paired(rng: np.random.Generator) -> bool:
    baseline = rng.normal(44, 0.2, 11)
    other = 44 * 2.04 * (1 + rng.normal(0, 0.14, 11))
    found = ratio_interval(Units.single(baseline), Units.single(other), Interval95(paired=True))
    assert found is not None
    return found[0][0] <= 2.04 <= found[0][1]


def unpaired(rng: np.random.Generator) -> bool:
    baseline = 61.7 * (1 + rng.normal(0, 0.05, 11))
    other = 89.7 * (1 + rng.normal(0, 0.14, 10))
    found = ratio_interval(Units.single(baseline), Units.single(other), Interval95(paired=False))
    assert found is not None
    return found[0][0] <= 89.7 / 61.7 <= found[0][1]


def five_prompts(rng: np.random.Generator) -> bool:
    found = mean_interval(Units.single(rng.normal(90, 12, 5)), 0)
    assert found is not None
    return found[0] <= 90 <= found[1]


@pytest.mark.parametrize("holds", [paired, unpaired, five_prompts])
def test_95_percent_intervals_hold_the_truth_95_percent_of_the_time(
    holds: Callable[[np.random.Generator], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """benchmarks/coverage.py has more designs and sizes; plain BCa holds it 90% of the time."""
    monkeypatch.setattr(intervals, "RESAMPLES", 999)
    rng = np.random.default_rng(1)
    times = 2000
    covered = sum(holds(rng) for _ in range(times)) / times
    assert 0.93 <= covered <= 0.97
