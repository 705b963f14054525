"""One run against another: pairs, ratios, and what could be seen."""

from typing import Any

import msgspec
import numpy as np
import pytest

from bench_client.measure.compare import compare
from bench_client.measure.figures import Comparison
from bench_client.measure.summary import throughput
from bench_client.records import Run

from .arms import GAPS, arm, speculative
from .runs import answer, failed, imported, run


def test_pairs_by_prompt() -> None:
    found = compare(arm(), arm(0.5))
    assert (found.paired, found.unpaired_reason, found.refused) == (True, None, None)
    rate = found.ratios["tps_decode"]
    assert rate.ratio == pytest.approx(2)
    assert rate.ci95 == pytest.approx((2, 2))
    assert rate.n == (10, 10)
    assert found.ratios["itl_ms"].ratio == pytest.approx(0.5)
    assert found.ratios["ttft_ms"].ratio == 1
    assert found.ratios["tps_e2e"].ratio == pytest.approx(1.9, abs=0.06)
    assert found.ratios["output_tokens"].ratio == 1
    assert "accept_length" not in found.ratios
    assert found.why is None
    assert found.warnings == ()


def test_pairs_are_found_whatever_the_order() -> None:
    whole = arm(0.5)
    shuffled = msgspec.structs.replace(whole, records=whole.records[::-1])
    assert compare(arm(), shuffled).ratios["tps_decode"].ci95 == pytest.approx((2, 2))


def test_a_prompts_repeats_are_one_pair() -> None:
    found = compare(arm(repeats=3), arm(0.5, repeats=2))
    assert found.ratios["tps_decode"].n == (10, 10)
    assert found.ratios["itl_ms"].ratio == pytest.approx(0.5)
    assert found.ratios["itl_ms"].ci95 == pytest.approx((0.5, 0.5))
    assert len(found.rows) == 10


def test_one_prompt_is_paired_by_repeat() -> None:
    plan = {"repeats": 4}
    found = compare(arm(prompts=[3], repeats=4, plan=plan), arm(0.5, [3], 4, plan=plan))
    assert found.ratios["tps_decode"].n == (4, 4)
    assert found.ratios["tps_decode"].ci95 == pytest.approx((2, 2))
    lone = compare(arm(prompts=[3]), arm(0.5, [3]))
    assert lone.ratios["tps_decode"].ratio == pytest.approx(2)
    assert lone.ratios["tps_decode"].ci95 is None


def test_rows() -> None:
    row = compare(arm(), speculative()).rows[1]
    assert (row.prompt_index, row.prompt_id, row.language) == (1, "p1", "zh")
    assert row.baseline_tps_decode == pytest.approx(1000 / 21)
    assert row.other_tps_decode == pytest.approx(50 / 13 / 0.042)
    assert row.speedup == pytest.approx(50 / 13 / 2)
    assert row.accept_length == pytest.approx(50 / 13)


def test_aggregates_have_a_ratio_and_no_interval() -> None:
    plain = imported(figures={"throughput.output_tok_per_s": 1174.22, "itl_ms.mean": 111.55})
    eagle3 = imported(figures={"throughput.output_tok_per_s": 349.88, "itl_ms.mean": 109.55})
    found = compare(plain, eagle3)
    assert found.ratios["output_tok_per_s"].ratio == pytest.approx(0.298, abs=0.0005)
    assert found.ratios["itl_ms"].ratio == pytest.approx(109.55 / 111.55)
    assert found.ratios["itl_ms"].ci95 is None


def noisy(sign: int) -> Run:
    records = [
        answer(i, gaps=(GAPS[i] * (1 + sign * 0.05 * (-1) ** (i // 2)),) * 50) for i in range(10)
    ]
    return run(records)


def repeated(sign: int) -> Run:
    """Prompts that gain alike, as far as two repeats tell."""
    spread = np.random.default_rng(sign + 1).normal(0, 0.05, (2, 10))
    records = [
        answer(i, gaps=(GAPS[i] * (1 + spread[r, i]),) * 50, repeat=r)
        for r in range(2)
        for i in range(10)
    ]
    return run(records, plan={"repeats": 2})


def test_what_repeats_would_show() -> None:
    found = compare(repeated(1), repeated(-1))
    needed = found.ratios["tps_decode"].recommended_repeats
    assert found.repeats == 2
    assert needed
    assert f"for 2% about {needed} repeats are needed" in " ".join(found.warnings)


def test_what_could_not_be_seen() -> None:
    found = compare(noisy(1), noisy(-1))
    rate = found.ratios["tps_decode"]
    assert rate.ci95 is not None
    assert rate.mdd is not None
    assert rate.ci95[0] < 1 < rate.ci95[1]
    said = " ".join(found.warnings)
    assert f"no difference in tps_decode is shown; one of {rate.mdd:.1%} would have been, " in said
    assert "with 80% probability" in said
    assert rate.recommended_repeats is None  # one repeat does not tell chance from prompts
    assert "--repeat 2 would show how many repeats 2% takes" in said


def test_what_it_would_take_is_in_the_file() -> None:
    found = msgspec.to_builtins(compare(noisy(1), noisy(-1)))["ratios"]
    assert found["tps_decode"]["minimum_detectable"] > 0.02
    assert found["tps_decode"]["recommended_repeats"] is None
    found = msgspec.to_builtins(compare(*(repeated(sign) for sign in (1, -1))))["ratios"]
    assert found["tps_decode"]["recommended_repeats"] > 1
    assert found["tps_e2e"]["recommended_repeats"] > 1
    assert compare(arm(), arm(prompts=range(20, 30))).ratios["ttft_ms"].recommended_repeats is None
    plan = {"repeats": 4}
    lone = compare(arm(prompts=[3], repeats=4, plan=plan), arm(0.5, [3], 4, plan=plan))
    assert lone.ratios["tps_decode"].recommended_repeats == 3


def test_a_run_against_itself_warns_of_nothing() -> None:
    found = compare(noisy(1), noisy(1))
    assert found.ratios["tps_decode"].ci95 == (1, 1)
    assert found.warnings == ()


def test_throughput_is_what_the_summary_says() -> None:
    sides = arm(repeats=2), arm(0.5, repeats=2)
    rate = compare(*sides).ratios["output_tok_per_s"]
    told = [throughput(side).output_tok_per_s for side in sides]
    assert [rate.baseline_mean, rate.other_mean] == pytest.approx(told)
    assert rate.paired
    assert rate.ci95 is not None


def test_what_repeats_cannot_show() -> None:
    def gaining(sign: int) -> Run:
        return run(
            [
                answer(i, gaps=(20 * (1 + sign * 0.1 * (-1) ** i) + 0.01 * r,) * 50, repeat=r)
                for r in range(2)
                for i in range(10)
            ],
            plan={"repeats": 2},
        )

    said = " ".join(compare(gaining(1), gaining(-1)).warnings)
    assert "more prompts are needed: they gain unlike" in said


def test_empty_runs_give_no_ratio() -> None:
    found = compare(run([]), run([]))
    assert found.ratios == {}
    assert isinstance(msgspec.json.decode(msgspec.json.encode(found), type=Comparison), Comparison)


def test_runs_without_an_answer_have_no_ratios() -> None:
    dead = run([failed(i) for i in range(10)], server=server_counters(10.0))
    for sides in ((arm(), dead), (dead, arm())):
        found = compare(*sides)
        assert found.ratios == {}
        assert found.why is None


def server_counters(drafts: float) -> dict[str, Any]:
    """Of a warm-up, say."""
    return {
        "counters_before": {},
        "counters_after": {
            "vllm:spec_decode_num_drafts_total": drafts,
            "vllm:spec_decode_num_accepted_tokens_total": drafts,
        },
    }
