"""Ratios of percentiles and their intervals."""

import numpy as np
import numpy.typing as npt
import pytest

from bench_client.measure.percentiles import percentile_ratio, split_name
from bench_client.measure.samples import Sample


def test_split_name() -> None:
    assert split_name("ttft_ms.p99") == ("ttft_ms", "p99")
    assert split_name("ttft_ms") == ("ttft_ms", "")


def lone(values: npt.NDArray[np.float64]) -> Sample:
    return Sample.of_values(values.tolist(), range(len(values)))


def test_as_numpy_has_it() -> None:
    rng = np.random.default_rng(1)
    below, above = rng.lognormal(0, 0.4, 123), rng.lognormal(0.2, 0.4, 110)
    found = percentile_ratio(lone(below), lone(above), "ttft_ms.p90", False, 0)
    assert found.baseline_mean == pytest.approx(np.percentile(below, 90))
    assert found.other_mean == pytest.approx(np.percentile(above, 90))
    assert found.n == (123, 110)
    assert found.ci95 is not None
    assert found.ratio is not None
    assert found.ci95[0] < found.ratio < found.ci95[1]


def test_paired_what_prompts_share_cancels() -> None:
    prompts = np.random.default_rng(2).lognormal(0, 1.0, 40)
    below, above = lone(prompts), lone(prompts[::-1] * 1.1)
    relabelled = Sample.of_values((prompts * 1.1).tolist(), range(40))
    paired = percentile_ratio(below, relabelled, "ttft_ms.p90", True, 0)
    assert paired.ci95 == pytest.approx((1.1, 1.1))
    apart = percentile_ratio(below, above, "ttft_ms.p90", False, 0)
    assert apart.ci95 is not None
    assert apart.ci95[0] < 1 < apart.ci95[1]


def test_only_shared_prompts_are_paired() -> None:
    below = Sample.of_values([1.0] * 10, range(10))
    above = Sample.of_values([2.0] * 10 + [99.0] * 10, range(20))
    found = percentile_ratio(below, above, "ttft_ms.p90", True, 0)
    assert (found.ratio, found.n) == (2.0, (10, 10))


def test_a_request_is_resampled_with_all_its_tokens() -> None:
    """12 requests of 100 equal gaps: 1,200 values say no more than 12."""
    rng = np.random.default_rng(3)
    means = rng.lognormal(0, 0.3, (2, 12))
    sides = [Sample.of_lists([np.full(100, mean) for mean in side], range(12)) for side in means]
    alone = [lone(side) for side in means]
    tokens = percentile_ratio(sides[0], sides[1], "itl_ms.p90", False, 0)
    requests = percentile_ratio(alone[0], alone[1], "itl_ms.p90", False, 0)
    assert tokens.ci95 is not None
    assert requests.ci95 is not None
    widths = [float(np.log(high / low)) for low, high in (tokens.ci95, requests.ci95)]
    assert widths[0] == pytest.approx(widths[1], rel=0.25)


def coverage(paired: bool, n: int, name: str) -> float:
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(60):
        prompts = rng.lognormal(0, 0.4, n)
        below = prompts * rng.lognormal(0, 0.1, n)
        above = 1.2 * (prompts if paired else rng.lognormal(0, 0.4, n)) * rng.lognormal(0, 0.1, n)
        found = percentile_ratio(lone(below), lone(above), name, paired, 0)
        assert found.ci95 is not None
        held += found.ci95[0] <= 1.2 <= found.ci95[1]
    return held / 60


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(("n", "name"), [(11, "ttft_ms.p50"), (100, "ttft_ms.p99")])
def test_intervals_hold_the_true_ratio(paired: bool, n: int, name: str) -> None:
    assert coverage(paired, n, name) >= 0.85
