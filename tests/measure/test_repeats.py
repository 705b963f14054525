"""Drift between repeats told from prompts that gain unlike, and from chance."""

import math

import numpy as np
import pytest

from bench_client.measure.compare import compare
from bench_client.measure.repeats import Table, table_of, with_drift, with_needed
from bench_client.measure.stats import paired_ratio, two_sided
from bench_client.records import Run

from .arms import GAPS
from .runs import answer, run

ALLOWED = (math.log(1.02) / (2.2281 + 0.8791)) ** 2  # of 11 prompts: t at 97.5% and at 80%


def table(values: "np.ndarray[tuple[int, int], np.dtype[np.float64]]") -> Table:
    found = Table.of(values)
    assert found
    return found


def test_mean_squares_by_hand() -> None:
    found = table(np.array([[0.0, 2.0], [1.0, 3.0], [2.0, 7.0]]))
    # Rows average 1, 2 and 4.5, columns 1 and 4, all 2.5; what is left is 0.5, 0.5 and -1, twice.
    assert found.prompts == pytest.approx(2 * (1.5**2 + 0.5**2 + 2**2) / 2)
    assert found.repeats == pytest.approx(3 * (1.5**2 + 1.5**2))
    assert found.rest == pytest.approx(2 * (0.5**2 + 0.5**2 + 1**2) / 2)


def test_too_few_for_a_table() -> None:
    assert table_of([]) is None
    assert table_of([{0: 0.1}] * 11) is None
    assert table_of([{0: 0.1, 1: 0.2}] * 2) is None
    whole = table_of([{0: 0.1, 1: 0.2}] * 3)
    assert whole
    assert table_of([*[{0: 0.1, 1: 0.2}] * 3, {0: 0.5}]) == whole


def test_an_interrupted_repeat_is_none() -> None:
    """And does not take the others' drift away, nor do prompts that lack another repeat each."""
    rng = np.random.default_rng(4)
    rows = [
        {r: shift + float(rng.normal(0, 0.001)) for r, shift in enumerate((0.0, 0.03, -0.01))}
        for _ in range(11)
    ]
    cut = [row if not index else {0: row[0], 1: row[1]} for index, row in enumerate(rows)]
    kept = table_of(cut)
    assert kept
    assert (kept.n, kept.k, kept.drifts) == (11, 2, True)
    holes = [
        {r: value for r, value in row.items() if (index, r) not in ((0, 0), (1, 2))}
        for index, row in enumerate(rows)
    ]
    held = table_of(holes)
    assert held
    assert (held.n, held.k, held.drifts) == (9, 3, True)


def test_repeats_cannot_average_out_what_prompts_gain_unlike() -> None:
    gains = np.linspace(0.3, 1.1, 11)[:, None] + np.array([0, 0.001, -0.001])
    assert table(gains + np.random.default_rng(0).normal(0, 1e-4, (11, 3))).needed(0.02) is None


def test_repeats_average_out_chance() -> None:
    rng = np.random.default_rng(3)
    chance = rng.normal(0.5, 0.05, (11, 3))
    found = table(chance)
    assert not found.gains_unlike
    drift = max(found.repeats - found.rest, 0) / 11 if found.drifts else 0
    pooled = (10 * found.prompts + 20 * found.rest) / 30
    assert found.needed(0.02) == math.ceil((drift + pooled / 11) / ALLOWED)


def test_drift_takes_repeats_however_many_prompts_there_are() -> None:
    """With drift alone the interval has the freedom of the repeats: t of K - 1."""
    rng = np.random.default_rng(5)
    drifting = rng.normal(0, 0.02, (1, 4)) + rng.normal(0, 0.0005, (11, 4))
    needed = table(drifting).needed(0.02)
    assert needed
    sd = float(drifting.mean(0).std(ddof=1))
    enough = [two_sided(k - 1) * sd / math.sqrt(k) <= math.log(1.02) for k in (needed, needed - 1)]
    assert enough == [True, False]


def test_more_repeats_are_needed_where_these_do_not_tell() -> None:
    rng = np.random.default_rng(6)
    for _ in range(50):
        found = table(rng.normal(0, 0.004, (1, 2)) + rng.normal(0, 0.007, (11, 2)))
        ratio = with_drift(paired_ratio([1.0] * 11, [1.0 + 0.001 * i for i in range(11)]), found)
        told = with_needed(ratio, found, 0.02)
        if told.mdd and told.mdd > 0.02 and told.recommended_repeats:
            assert told.recommended_repeats > 2


def test_prompts_gain_unlike_only_on_evidence() -> None:
    """Prompts that gain alike, as noisy as to need some repeats: an F test errs in 5%."""
    rng = np.random.default_rng(7)
    chance = [table(rng.normal(0.5, 0.05, (11, 3))).needed(0.02) for _ in range(200)]
    assert sum(found is None for found in chance) <= 20
    real = [
        table(rng.normal(0.5, 0.2, (11, 1)) + rng.normal(0, 0.05, (11, 3))).needed(0.02)
        for _ in range(50)
    ]
    assert real.count(None) >= 45


def false_alarms(drift: float, repeats: int, experiments: int = 300) -> float:
    """Share of comparisons of an arm with itself whose interval leaves out 1."""
    rng = np.random.default_rng(11)
    wrong = 0
    for _ in range(experiments):
        shifts = rng.normal(0, drift, (1, repeats)) + rng.normal(0, 0.007, (11, repeats))
        plain = np.full(11, 44.0)
        found = paired_ratio(plain, list(plain * np.exp(shifts).mean(1)))
        held = with_drift(found, table(shifts)).ci95
        wrong += not (held and held[0] <= 1 <= held[1])
    return wrong / experiments


def test_drift_is_in_the_interval() -> None:
    """Runs that drift by 1% and prompts by 0.7%: over prompts alone, 70% would be false alarms."""
    assert false_alarms(0.01, 4) < 0.1
    assert false_alarms(0.01, 3) < 0.12
    assert false_alarms(0, 4) < 0.09


def test_without_drift_an_interval_stays_what_it_was() -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(0.1, 0.05, (11, 1)) + rng.normal(0, 0.02, (11, 3))
    values -= values.mean(0)
    found = paired_ratio(np.full(11, 1.0), list(np.exp(values).mean(1)))
    assert with_drift(found, table(values)) == found


def drifting(shifts: tuple[float, ...]) -> Run:
    return run(
        [
            answer(i, gaps=(GAPS[i] * shift,) * 50, repeat=r)
            for r, shift in enumerate(shifts)
            for i in range(10)
        ],
        plan={"repeats": len(shifts)},
    )


def test_arms_that_differ_only_from_repeat_to_repeat() -> None:
    """Every prompt gains 1%, as one of three repeats was slow: no difference is shown."""
    found = compare(drifting((1, 1.031, 1)), drifting((1, 1, 1)))
    rate = found.ratios["tps_decode"]
    assert rate.ratio == pytest.approx(1.01, abs=0.001)
    assert rate.ci95 is not None
    assert rate.ci95[0] < 1 < rate.ci95[1]
    assert rate.mdd is not None
    assert rate.mdd > 0.02
    assert rate.recommended_repeats is not None
    assert rate.recommended_repeats > 3
