"""Why one arm is faster than another."""

import pytest

from bench_client.measure.compare import compare

from .arms import arm, speculative
from .published import SGLANG, SGLANG_ACCEPT, SGLANG_EAGLE3
from .runs import answer, imported, run, told


def test_why_it_is_faster() -> None:
    found = compare(arm(), speculative(accept=5, step_ms=40))
    why = found.why
    assert why is not None
    assert (why.base_step_ms, why.step_ms) == pytest.approx((20, 40))
    assert (why.cost, why.breakeven_accept_length) == pytest.approx((2, 2))
    assert (why.accept_length, why.predicted_speedup) == pytest.approx((5, 2.5))
    assert why.measured_speedup == pytest.approx(2.5)
    assert why.sentence == (
        "each verify step costs 2.00 plain steps and yields 5.00 tokens: 2.50 times faster; "
        "below 2.00 tokens a step it would be slower"
    )


def test_why_it_is_slower() -> None:
    why = compare(arm(), speculative(accept=2, step_ms=60)).why
    assert why is not None
    assert "0.67 times as fast; it would take 3.00 tokens a step to pay" in why.sentence


def test_why_weighs_prompts_as_the_speedup_does() -> None:
    """Half the prompts yield 5 tokens a step, half 1: a mean of 3, but 1.67 over all steps."""
    records = [
        answer(i, gaps=(40,) * n, tokens=(1, *([50 // n] * n)), accept=told(50, n))
        for i, n in enumerate((10, 50) * 5)
    ]
    found = compare(arm(), run(records))
    assert found.why is not None
    assert found.why.accept_length == pytest.approx(3.0)
    assert found.why.predicted_speedup == pytest.approx(found.ratios["tps_decode"].ratio, rel=0.01)
    assert "measured" not in found.why.sentence
    # The whole work takes longer than the mean rate suggests: slow prompts hold most of the time.
    pooled = found.ratios["tps_e2e_pooled"].ratio
    assert pooled is not None
    assert pooled < 1 < found.why.predicted_speedup


def test_why_needs_a_plain_baseline() -> None:
    assert compare(speculative(), speculative()).why is None
    assert compare(speculative(), arm()).why is None
    both = compare(speculative(5), speculative(2))
    assert both.ratios["accept_length"].ratio == pytest.approx(0.4)


def test_published_speedup_and_its_reason() -> None:
    """SGLang on an L40: accept length 3.87 at 1.90 plain steps."""
    plain = imported({"tps_decode": SGLANG}, label="sglang")
    eagle3 = imported({"tps_decode": SGLANG_EAGLE3, "accept_length": SGLANG_ACCEPT})
    found = compare(plain, eagle3)
    assert found.baseline == "sglang"
    assert found.ratios["tps_decode"].ratio == pytest.approx(2.039, abs=0.0005)
    assert found.why is not None
    assert found.why.sentence == (
        "each verify step costs 1.90 plain steps and yields 3.87 tokens: 2.04 times faster; "
        "below 1.90 tokens a step it would be slower"
    )
    assert "the model of at least one run is not known" in " ".join(found.warnings)
