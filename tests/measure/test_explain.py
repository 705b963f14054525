"""Why one arm is faster than another."""

from typing import Any

import msgspec
import pytest

from bench_client.measure.compare import compare
from bench_client.records import Load

from .arms import arm, changed, speculative
from .published import SGLANG, SGLANG_ACCEPT, SGLANG_EAGLE3
from .runs import answer, imported, run, told

DRAFTS = "vllm:spec_decode_num_drafts_total"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"


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


def test_a_cheap_step_pays_whatever_it_yields() -> None:
    why = compare(arm(), speculative(accept=1, step_ms=17)).why
    assert why is not None
    assert why.sentence.endswith("1.18 times as fast, and any accept length pays")


@pytest.mark.parametrize(
    ("part", "fields"),
    [
        ("plan", {"load": Load(kind="closed", concurrency=8)}),
        ("plan", {"load": Load(kind="open", request_rate=5.0)}),
        ("environment", {"gpus": [{"name": "NVIDIA L40"}]}),
    ],
)
def test_steps_of_other_work_explain_nothing(part: str, fields: dict[str, Any]) -> None:
    here = {"environment": {"gpus": [{"name": "NVIDIA H200"}]}, "server": {"argv": ("serve",)}}
    plain, other = arm(**here), speculative(**here)
    assert compare(plain, other).why
    found = compare(plain, speculative(**{**here, part: fields}))
    assert found.why is None
    assert "accept length alone explains no speedup" in " ".join(found.warnings)


def test_a_part_of_the_prompts_explains_itself() -> None:
    """Three prompts of one run, all ten of the other, whose last seven accept nothing."""
    full = speculative(accept=5)
    poor = speculative(accept=1)
    records = (*full.records[:3], *poor.records[3:])
    other = msgspec.structs.replace(full, records=records)
    found = compare(arm(prompts=range(3)), other)
    assert found.why is not None
    assert found.why.accept_length == pytest.approx(5)
    assert found.why.fit is not None
    assert found.why.fit.prompts == 3


def test_languages_are_measured_on_their_own_prompts() -> None:
    """Even prompts are English and gain, odd ones Chinese and lose."""
    records = [answer(i, gaps=(40 if i % 2 else 10,) * 50, sent=0) for i in range(10)]
    found = compare(arm(), run(records)).by_language
    assert list(found) == ["en", "zh"]
    assert (found["en"].n, found["zh"].n) == ((5, 5), (5, 5))
    assert found["en"].ratio == pytest.approx(2, rel=0.05)
    assert found["zh"].ratio == pytest.approx(0.5, rel=0.05)
    assert found["zh"].ci95
    assert found["zh"].ci95[1] < 1
    only = compare(arm(prompts=(0, 2, 4)), run(records[::2]))
    assert only.by_language == {}


def test_joined_events_explain_by_the_headline() -> None:
    """The server counts 2 tokens a step over the window, and joins two steps in each event."""
    records = [answer(i, gaps=(80,) * 10, tokens=(1, *[4] * 10)) for i in range(10)]
    counters = {"counters_before": {}, "counters_after": {DRAFTS: 200.0, ACCEPTED: 200.0}}
    found = compare(arm(), run(records, server=counters))
    assert found.why is not None
    assert (found.why.accept_length, found.why.step_ms) == pytest.approx((2, 40))
    assert found.why.fit is None
    assert {row.accept_length for row in found.rows} == {None}
    alike = compare(speculative(accept=2), run(records, server=counters)).ratios
    assert alike["accept_length"].ratio == pytest.approx(1)
    assert alike["step_ms"].ratio == pytest.approx(1, rel=0.01)
    assert (alike["accept_length"].ci95, alike["step_ms"].ci95) == (None, None)


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
    nameless = compare(changed(plain, "server", model=None), eagle3)
    assert "the model of at least one run is not known" in " ".join(nameless.warnings)
