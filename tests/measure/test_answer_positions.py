"""Accept length along the answer: only from events that are one verify step each."""

from collections.abc import Sequence
from math import sqrt
from random import Random
from typing import Any

import msgspec
import pytest

from bench_client.measure.answer_positions import EDGES, answer_parts
from bench_client.measure.figures import AnswerPart
from bench_client.measure.summary import summarize
from bench_client.records import Run
from tests.wire.captured import SGLANG_TREE, VLLM_METRICS, timed_events
from tests.wire.chunks import folded

from .runs import answer, failed, run, told

DRAFTS = "vllm:spec_decode_num_drafts_total"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
TOKENS = "sglang:generation_tokens_total"
VERIFIED = "sglang:spec_verify_calls_total"


def stepped(index: int, later: Sequence[int], first: int = 1, **changes: Any) -> Any:
    """An answer whose events after the first are a step each, which the server confirms.

    Without a known depth, steps that begin fewer tokens before its end than the longest has count
    in no figure: the end may have cut them.
    """
    counts = {"accept": told(None, len(later)), **changes}
    return answer(index, gaps=(30,) * len(later), tokens=(first, *later), **counts)


def counted(records: Sequence[Any], drafts: float) -> Run:
    after = {DRAFTS: drafts, ACCEPTED: 2 * drafts}
    return run(records, server={"counters_before": {}, "counters_after": after})


def spans(whole: Run) -> list[tuple[int, int | None, int, int]]:
    return [(part.begin, part.end, part.answers, part.steps) for part in answer_parts(whole).parts]


def test_a_head_that_fails_past_its_trained_length() -> None:
    """4 tokens a step up to token 2,048, then 1."""
    whole = run([stepped(0, [4] * 512 + [1] * 401), stepped(1, [4] * 9)])
    found = answer_parts(whole)
    assert found.note is None
    # Steps begin at tokens 1, 5, ..., 2045, then 2049, 2050, ...
    assert spans(whole) == [
        (0, 31, 2, 16),
        (32, 63, 2, 9),
        (64, 127, 1, 16),
        (128, 255, 1, 32),
        (256, 511, 1, 64),
        (512, 1023, 1, 128),
        (1024, 2047, 1, 256),
        (2048, 4095, 1, 398),
    ]
    assert [part.accept_length for part in found.parts] == [4] * 7 + [1]


def test_a_step_belongs_where_it_begins() -> None:
    whole = run([stepped(0, [30, 5, 1, 30])])  # at tokens 1, 31, 36 and 37
    first, second = answer_parts(whole).parts
    assert (first.steps, first.accept_length) == (2, 17.5)
    assert (second.begin, second.steps, second.accept_length) == (32, 2, 15.5)


ACCEPTED_SHARE, DEPTH = 0.855, 5
TRUTH = sum(ACCEPTED_SHARE**k for k in range(DEPTH + 1))
# Of a step that yields at least k tokens with probability p^(k - 1), up to the bonus token.
STEP_SD = sqrt(sum((2 * k + 1) * ACCEPTED_SHARE**k for k in range(DEPTH + 1)) - TRUTH**2)


def drafted(index: int, limit: int, rng: Random) -> Any:
    """An answer of `limit` tokens, whose drafts are accepted alike all along."""
    later: list[int] = []
    while (left := limit - 1 - sum(later)) > 0:
        accepted = 0
        while accepted < DEPTH and rng.random() < ACCEPTED_SHARE:
            accepted += 1
        later.append(min(accepted + 1, left))
    return stepped(index, later)


@pytest.mark.parametrize("known", [{"num_steps": DEPTH}, None])
@pytest.mark.parametrize("limit", [40, 140, 176, 520, 768])
def test_acceptance_that_does_not_change_is_not_said_to(limit: int, known: Any) -> None:
    """Wherever the limit cuts: also where a part has begun a few tokens before."""
    rng = Random(limit)
    answers = [drafted(i, limit, rng) for i in range(60_000 // limit)]
    parts = answer_parts(run(answers, server={"speculative": known})).parts
    assert parts[-1].begin == max(edge for edge in (0, *EDGES) if edge < limit - DEPTH)
    for part in parts:
        error = STEP_SD / sqrt(part.steps)
        assert part.accept_length == pytest.approx(TRUTH, abs=3 * error)
        assert part.relative == pytest.approx(1, abs=3 * error / TRUTH)


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({}, 10),
        ({"speculative": {"num_steps": 5}}, 8),
        ({"speculative_asked": {"num_speculative_tokens": 3}}, 9),
    ],
)
def test_a_step_counts_if_the_deepest_draft_could_have_ended_too(changes: Any, steps: int) -> None:
    (part,) = answer_parts(run([stepped(0, [2] * 10)], server=changes)).parts
    assert part.steps == steps


def test_the_depth_is_that_of_the_run() -> None:
    """By the longest histogram, where those of short answers may be shorter."""
    histograms = [told(None, 10, histogram=counts) for counts in ((0, 10), (0, 10, 0, 0))]
    records = [stepped(i, [2] * 10, accept=accept) for i, accept in enumerate(histograms)]
    (part,) = answer_parts(run(records)).parts
    assert (part.answers, part.steps) == (2, 18)


def test_a_part_that_no_step_can_show_is_left_out() -> None:
    deep = {"speculative": {"num_steps": 5}}
    assert [part.begin for part in answer_parts(run([stepped(0, [4] * 9)], server=deep)).parts] == [
        0
    ]
    assert answer_parts(run([stepped(0, [3])], server=deep)) == (
        (),
        "no verify step begins so early that its answer's end cannot have cut it",
    )


def test_a_fall_is_told_from_a_change_of_prompts() -> None:
    """Short answers yield 4 tokens a step and long ones 2, all the way: nothing changes."""
    mixed = [stepped(i, [4] * 8) for i in range(5)]
    mixed += [stepped(i, [2] * 40) for i in range(5, 10)]
    first, second, third = answer_parts(run(mixed)).parts
    assert first.accept_length > 2.5 > second.accept_length == third.accept_length == 2
    for part in (first, second, third):
        assert part.relative == pytest.approx(1)
        assert part.relative_ci95 == pytest.approx((1, 1))
    falling = [stepped(i, [4] * (8 + i % 2) + [2] * 40) for i in range(10)]
    *_, last = answer_parts(run(falling)).parts
    assert last.relative == pytest.approx(2 / 2.35, abs=0.01)
    assert last.relative_ci95 is not None
    assert last.relative_ci95[1] < 0.9


def test_repeats_of_a_prompt_are_one_unit() -> None:
    once = [stepped(i, [2] * (20 + i) + [3] * 20) for i in range(9)]
    again = [msgspec.structs.replace(each, repeat=1) for each in once]
    single, double = answer_parts(run(once)).parts, answer_parts(run(once + again)).parts
    for part, twice in zip(single, double, strict=True):
        assert twice.answers == 2 * part.answers
        assert twice.relative_ci95 == pytest.approx(part.relative_ci95)


def test_the_last_part_has_no_end() -> None:
    (*_, last) = answer_parts(run([stepped(0, [64] * 100)])).parts
    assert (last.begin, last.end) == (4096, None)


def test_parts_add_up_to_what_the_client_saw() -> None:
    whole = run([stepped(0, [1, 2, 3] * 50), stepped(1, [4, 1] * 30)])
    found = summarize(whole).speculation
    assert found is not None
    parts = found.by_answer_position
    steps = sum(part.steps for part in parts)
    assert found.verify_steps == 210
    assert steps == 210 - 2
    tokens = sum(part.steps * part.accept_length for part in parts)
    seen = found.accept_length_sources["client_events"]
    assert seen is not None
    assert tokens == pytest.approx(210 * seen - (3 + 1))


def test_answers_of_joined_events_are_left_out() -> None:
    joined = stepped(1, [2, 4, 2, 2], accept=told(None, 5))
    found = answer_parts(run([stepped(0, [2, 2, 2, 2]), joined]))
    assert [(part.steps, part.accept_length) for part in found.parts] == [(4, 2)]
    assert found.note == "of 1 of 2 answers: events of the others are not one step each"
    alone = answer_parts(run([joined]))
    assert alone.parts == ()
    assert alone.note == "no answer has an event for each of its verify steps"


def test_events_of_no_token_are_no_steps() -> None:
    (part,) = answer_parts(run([stepped(0, [3, 0, 3, 0, 3], accept=told(None, 3))])).parts
    assert (part.steps, part.accept_length) == (3, 3)


def test_a_step_within_the_first_event_is_counted_but_not_placed() -> None:
    """Two steps by the server, one of them together with the prefill's token."""
    (part,) = answer_parts(run([stepped(0, [3, 5], first=4, accept=told(None, 3))])).parts
    assert (part.steps, part.accept_length) == (2, 4)
    # One token in it is the prefill's: then a later event holds both.
    assert answer_parts(run([stepped(0, [6, 1], accept=told(None, 3))])).parts == ()


def test_an_engine_whose_first_token_is_out_of_a_step() -> None:
    """EAGLE's own: `tokens` has them all, and those cut off at the end too."""
    (part,) = answer_parts(run([stepped(0, [3, 3, 2], accept=told(10, 4))])).parts
    assert (part.steps, part.accept_length) == (2, 3)


def test_counters_that_agree_prove_the_events_of_all_answers() -> None:
    plain = {"accept": None}
    records = [stepped(0, [2, 2], **plain), stepped(1, [4, 4, 4], **plain)]
    (part,) = answer_parts(counted(records, 5)).parts
    assert (part.answers, part.steps, part.accept_length) == (2, 4, 3.5)
    found = answer_parts(counted(records, 6))
    assert found.parts == ()
    assert found.note == "the events tell of 5 verify steps and the server of 6"


@pytest.mark.parametrize(
    ("records", "note"),
    [
        ([], "the tokens of single events are not known"),
        ([answer(tokens=(1, None, 2, 2))], "the tokens of single events are not known"),
        (
            [answer(tokens=(1, 2, 2, 2), token_count_source="final_usage", accept=told(6, 3))],
            "the tokens of single events are not known",
        ),
        (
            [answer(tokens=(1, 2, 2, 2))],
            "nothing counts the verify steps, so an event may be several",
        ),
    ],
)
def test_why_it_is_not_known(records: list[Any], note: str) -> None:
    assert answer_parts(run(records)) == ((), note)


def test_steps_of_failed_requests_are_in_the_counters_too() -> None:
    found = answer_parts(counted([answer(tokens=(1, 2, 2, 2)), failed(1)], 3))
    assert found.parts == ()
    assert "requests that are not known" in (found.note or "")


def test_a_real_answer_of_vllm() -> None:
    """0.32 with three drafts: 400 tokens in 157 events, 156 steps by its own count."""
    seen = folded((at_ns, data[6:-2]) for at_ns, data in timed_events(VLLM_METRICS))
    record = answer(events=seen.events, accept=seen.accept, output_tokens=seen.output_tokens)
    found = answer_parts(run([record]))
    assert [(part.begin, part.end) for part in found.parts] == [
        (0, 31),
        (32, 63),
        (64, 127),
        (128, 255),
        (256, 511),
    ]
    assert sum(part.steps for part in found.parts) == 155
    tokens = sum(part.steps * part.accept_length for part in found.parts)
    assert tokens == pytest.approx(399 - (seen.events.tokens[-1] or 0))


def test_a_real_answer_of_sglang_joins_its_steps() -> None:
    """0.5.16 with a tree: 600 tokens in 186 events, 195 verify calls."""
    seen = folded((at_ns, data[6:-2]) for at_ns, data in timed_events(SGLANG_TREE))
    record = answer(events=seen.events, token_count_source=seen.token_count_source)
    counters = {
        "counters_before": {TOKENS: 600.0, VERIFIED: 195.0},
        "counters_after": {TOKENS: 1200.0, VERIFIED: 390.0},
    }
    found = answer_parts(run([record], server=counters))
    assert found.parts == ()
    assert found.note == "the events tell of 185 verify steps and the server of 195"


def test_its_names_in_summary_json() -> None:
    part = AnswerPart(begin=4096, end=None, answers=1, steps=2, accept_length=1.5, relative=0.5)
    assert msgspec.json.decode(msgspec.json.encode(part)) == {
        "from": 4096,
        "to": None,
        "answers": 1,
        "steps": 2,
        "accept_length": 1.5,
        "relative": 0.5,
        "relative_ci95": None,
    }


def test_a_plain_arm_has_none() -> None:
    assert summarize(run([answer()])).speculation is None
