import numpy as np
import pytest

from bench_client.plan.arrivals import arrivals_ns
from bench_client.plan.build import PlanOptions, build_plan, language_of, with_previous_answer
from bench_client.plan.scenario import Prompt, Scenario, ScenarioError
from bench_client.records import Load, Message

CLOSED = Load(kind="closed", concurrency=1)


def scenario(*texts: str, chained: bool = False) -> Scenario:
    prompts = tuple(
        Prompt(id=f"p{i}", messages=(Message("user", text),), max_tokens=100 + i)
        for i, text in enumerate(texts)
    )
    warmup = (Prompt(id="w", messages=(Message("user", "warm"),)),)
    return Scenario(name="s", prompts=prompts, warmup=warmup, temperature=0.3, chained=chained)


def test_repeats_come_one_whole_pass_after_another() -> None:
    plan = build_plan(scenario("a", "b"), PlanOptions(load=CLOSED, repeats=2))
    assert [(r.prompt_index, r.repeat) for r in plan.requests] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert len({request.id for request in plan.requests}) == 4
    assert len({request.seed for request in plan.requests}) == 4
    assert plan.requests[0].prompt_sha256 == plan.requests[2].prompt_sha256


def test_all_arms_get_the_same_seeds() -> None:
    options = PlanOptions(load=CLOSED, seed=7)
    assert build_plan(scenario("a"), options) == build_plan(scenario("a"), options)
    other = build_plan(scenario("a"), PlanOptions(load=CLOSED, seed=8))
    assert other.requests[0].seed != build_plan(scenario("a"), options).requests[0].seed


def test_max_tokens_caps_each_prompts_own() -> None:
    plan = build_plan(scenario("a", "b"), PlanOptions(load=CLOSED, max_tokens=101))
    assert [request.max_tokens for request in plan.requests] == [100, 101]


@pytest.mark.parametrize(
    ("own", "asked", "expected"),
    [(None, None, 77), (None, 1500, 1500), (None, 5, 5), (9, None, 9), (9, 5, 5), (9, 1500, 9)],
)
def test_whose_token_limit_goes(own: int | None, asked: int | None, expected: int) -> None:
    prompt = Prompt(id="p", messages=(Message("user", "a"),), max_tokens=own)
    one = Scenario(name="s", prompts=(prompt,), max_tokens=77)
    plan = build_plan(one, PlanOptions(load=CLOSED, max_tokens=asked, warmup=0))
    assert plan.requests[0].max_tokens == expected


@pytest.mark.parametrize(("asked", "expected"), [(None, 0.3), (0.0, 0.0), (0.9, 0.9)])
def test_temperature_of_the_command_line_wins(asked: float | None, expected: float) -> None:
    plan = build_plan(scenario("a"), PlanOptions(load=CLOSED, temperature=asked))
    assert plan.sampling.temperature == expected


def test_warmup_is_no_measured_prompt() -> None:
    plan = build_plan(scenario("a"), PlanOptions(load=CLOSED, warmup=3))
    measured = {request.prompt_sha256 for request in plan.requests}
    assert len(plan.warmup) == 3
    assert not measured & {request.prompt_sha256 for request in plan.warmup}
    assert build_plan(scenario("a"), PlanOptions(load=CLOSED, warmup=0)).warmup == ()


def test_a_chain_runs_one_at_a_time() -> None:
    chained = scenario("a", "given {previous_answer}, b", chained=True)
    two = PlanOptions(load=Load(kind="closed", concurrency=2))
    with pytest.raises(ScenarioError, match="--concurrency 1"):
        build_plan(chained, two)
    first, second = build_plan(chained, PlanOptions(load=CLOSED)).requests
    assert (first.chained, second.chained) == (False, True)
    whole = with_previous_answer(second, "{previous_answer}?")
    assert whole.messages[0].content == "given {previous_answer}?, b"
    assert whole.prompt_sha256 != second.prompt_sha256


def test_every_repeat_of_an_open_loop_begins_anew() -> None:
    load = Load(kind="open", request_rate=2.0, burstiness=1.0)
    plan = build_plan(scenario("a", "b", "c"), PlanOptions(load=load, repeats=3))
    due = [[r.scheduled_ns for r in plan.requests if r.repeat == n] for n in range(3)]
    assert all(each == sorted(each) for each in due)
    assert len({tuple(each) for each in due}) == 3
    assert [each[0] for each in due] == [0, 0, 0]


def test_an_open_loop_is_scheduled_before_it_starts() -> None:
    load = Load(kind="open", request_rate=4.0, burstiness=1.0)
    plan = build_plan(scenario("a", "b", "c"), PlanOptions(load=load))
    due = [request.scheduled_ns for request in plan.requests]
    assert due[0] == 0
    assert due == sorted(due)


@pytest.mark.parametrize("burstiness", [0.5, 1.0, 4.0])
def test_gaps_have_the_asked_mean_and_spread(burstiness: float) -> None:
    gaps = np.diff(arrivals_ns(20_000, 50.0, burstiness, seed=3)) / 1e9
    assert gaps.mean() == pytest.approx(1 / 50, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(burstiness**-0.5, rel=0.05)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Explain the log below.", "en"),
        ("请解释下面的日志：ERROR timeout", "zh"),
        ("Объясните журнал", None),
        ("12345 -- !!", None),
    ],
)
def test_language(text: str, language: str | None) -> None:
    assert language_of(text) == language
