"""What is refused, unpaired or warned of."""

from typing import Any

import msgspec
import pytest

from bench_client.measure.compare import compare
from bench_client.records import Load, Run, Sampling

from .arms import arm, changed
from .published import SGLANG, VLLM, VLLM_EAGLE3
from .runs import answer, failed, imported, run


@pytest.mark.parametrize(
    ("part", "fields", "said"),
    [
        ("server", {"model": "Qwen/Qwen3-4B"}, "the models differ: qwen3-8b and qwen3-4b"),
        ("plan", {"sampling": Sampling(temperature=0.0)}, "one run is greedy and the other is not"),
    ],
)
def test_what_is_refused(part: str, fields: dict[str, Any], said: str) -> None:
    baseline = arm(server={"model": "Qwen/Qwen3-8B"})
    found = compare(baseline, changed(baseline, part, **fields))
    assert found.refused is not None
    assert said in found.refused
    assert (found.ratios, found.paired, found.why, found.lossless) == ({}, False, None, None)


def test_a_models_path_is_not_its_name() -> None:
    local = arm(server={"model": "/models/Qwen3-8B/"})
    assert compare(arm(server={"model": "Qwen/Qwen3-8B"}), local).refused is None


@pytest.mark.parametrize(
    ("part", "fields", "said"),
    [
        ("plan", {"api": "completions"}, "the APIs differ: chat and completions"),
        ("plan", {"load": Load(kind="closed", concurrency=2)}, "concurrency 1 and concurrency 2"),
        (
            "plan",
            {"load": Load(kind="closed", concurrency=1, rate_limit="2/s")},
            "the loads differ: concurrency 1 and concurrency 1 held to 2/s",
        ),
        ("plan", {"sampling": Sampling(temperature=1.0)}, "the temperatures differ (0.6 and 1)"),
        ("plan", {"sampling": Sampling(ignore_eos=True)}, "only one run ignores the end"),
    ],
)
def test_what_is_warned_of(part: str, fields: dict[str, Any], said: str) -> None:
    found = compare(arm(), changed(arm(0.5), part, **fields))
    assert found.refused is None
    assert said in " ".join(found.warnings)


def test_a_run_against_itself_is_told() -> None:
    whole = msgspec.structs.replace(arm(), path="results/one")
    assert "both are one and the same run" in " ".join(compare(whole, whole).warnings)


def test_failed_requests_are_warned_of_and_left_out() -> None:
    whole = arm(0.5)
    broken = msgspec.structs.replace(whole, records=(failed(0), *whole.records[1:]))
    found = compare(arm(), broken)
    assert found.paired
    assert found.ratios["tps_decode"].n == (9, 9)
    assert found.ratios["tps_decode"].ci95 == pytest.approx((2, 2))
    assert "1 of 10 requests of the other run failed" in " ".join(found.warnings)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (arm(0.5, range(8, 18)), "the prompts differ: 2 of 18 are in both runs"),
        (arm(0.5, plan={"chained": True}), "the prompts are chained on earlier answers"),
        (imported({"tps_decode": SGLANG}), "runs of other tools do not say which prompt"),
        (
            run([answer(i, gaps=(10,) * 50, input_tokens=12 - i % 2) for i in range(10)]),
            "input lengths differ in 10 of 10 prompts (10 and 12 tokens)",
        ),
    ],
)
def test_what_is_unpaired(other: Run, said: str) -> None:
    found = compare(arm(), other)
    assert not found.paired
    assert found.unpaired_reason is not None
    assert said in found.unpaired_reason
    assert not found.ratios["tps_decode"].paired
    assert found.rows == ()


def test_prompts_that_both_runs_have_are_paired() -> None:
    found = compare(arm(), arm(0.5, range(4, 14)))
    assert (found.paired, found.shared_prompts) == (True, (6, 14))
    assert found.ratios["tps_decode"].n == (6, 6)
    assert found.ratios["tps_decode"].ci95 == pytest.approx((2, 2))
    assert found.ratios["output_tok_per_s"].n == (6, 6)
    assert len(found.rows) == 6
    assert compare(arm(), arm(0.5)).shared_prompts is None


def test_unlike_token_limits() -> None:
    whole = arm()
    requests = tuple(
        msgspec.structs.replace(each, max_tokens=40) for each in whole.header.plan.requests
    )
    short = changed(whole, "plan", requests=requests)
    before = whole.header.plan.requests[0].max_tokens
    said = f"the token limits (--max-tokens) differ in 10 of 10 prompts ({before} and 40)"
    assert said in " ".join(compare(whole, short).warnings)
    assert "token limits" not in " ".join(compare(whole, whole).warnings)


def test_ignoring_the_end_tells_of_lengths_only_where_they_differ() -> None:
    other = changed(arm(), "plan", sampling=Sampling(ignore_eos=True))
    assert "only one run ignores the end of sequence" in compare(arm(), other).warnings
    longer = run(
        [answer(i, gaps=(10,) * 60) for i in range(10)],
        plan={"sampling": Sampling(ignore_eos=True)},
    )
    assert "sequence, and answers differ in length by 20% on average" in " ".join(
        compare(arm(), longer).warnings
    )


def test_answers_of_unlike_length() -> None:
    longer = run([answer(i, gaps=(10,) * 60) for i in range(10)])
    found = compare(arm(), longer)
    assert "answers are 20% longer than the baseline's" in " ".join(found.warnings)


def test_open_loops_of_unlike_burstiness() -> None:
    loads = (Load(kind="open", request_rate=2.0, burstiness=each) for each in (1.0, 0.1))
    found = compare(*(arm(plan={"load": load}) for load in loads))
    said = "the loads differ: 2.0 requests/s and 2.0 requests/s of burstiness 0.1"
    assert any(warning.startswith(said) for warning in found.warnings)


UNLIKE = "the two answers to a prompt differ in length by"


def test_answers_of_unlike_length_prompt_by_prompt() -> None:
    """As long on the whole, so that the mean does not tell."""

    def swapped(short: int) -> Run:
        return run([answer(i, gaps=(10,) * (39 if i % 2 == short else 59)) for i in range(10)])

    found = compare(swapped(0), swapped(1))
    assert found.ratios["output_tokens"].ratio == 1
    assert f"{UNLIKE} 50% on average" in " ".join(found.warnings)
    assert UNLIKE not in " ".join(compare(swapped(0), swapped(0)).warnings)


def test_answers_that_were_compared_need_no_word_of_their_lengths() -> None:
    def greedy(short: int, sha256: str | None) -> Run:
        records = [
            answer(
                i,
                gaps=(10,) * (39 if i % 2 == short else 59),
                output_sha256=sha256,
                finish_reason="stop",
            )
            for i in range(10)
        ]
        return run(records, plan={"sampling": Sampling(temperature=0.0)})

    assert UNLIKE not in " ".join(compare(greedy(0, "a"), greedy(1, "b")).warnings)
    assert UNLIKE in " ".join(compare(greedy(0, None), greedy(1, None)).warnings)


def test_rates_of_unlike_definition() -> None:
    """Decode-only from one engine's log, with the prefill from the other's."""
    found = compare(imported({"tps_e2e": VLLM}), imported({"tps_decode": SGLANG}))
    assert found.ratios["tps"].ratio == pytest.approx(1.030, abs=0.0005)
    said = " ".join(found.warnings)
    assert "the other run's token rate is of decoding only" in said
    alike = compare(imported({"tps_e2e": VLLM}), imported({"tps_e2e": VLLM_EAGLE3}))
    assert alike.ratios["tps_e2e"].ratio == pytest.approx(1.444, abs=0.0006)
    assert "tps" not in alike.ratios


def test_stated_definitions_that_differ() -> None:
    found = compare(
        imported({"itl_ms": (1.0, 2.0)}, definitions={"itl_ms": "by chunk"}),
        imported({"itl_ms": (1.0, 2.0)}),
    )
    assert "itl_ms is not the same figure: baseline by chunk; other as in" in " ".join(
        found.warnings
    )
