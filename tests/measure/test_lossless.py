"""Answers of two arms, greedy and sampled."""

from typing import Any

from bench_client.measure.lossless import lossless
from bench_client.records import Run, Sampling

from .runs import answer, failed, imported, run

GREEDY = {"plan": {"sampling": Sampling(temperature=0.0)}}


def arm(*answers: tuple[int, ...] | None, **parts: Any) -> Run:
    """One prompt for each answer; null: token ids are not known."""
    records = [
        answer(i, output_token_ids=ids, output_sha256=f"hash of {ids}")
        for i, ids in enumerate(answers)
    ]
    return run(records, **{**GREEDY, **parts})


def test_all_the_same() -> None:
    found = lossless(arm((1, 2), (3,)), arm((1, 2), (3,)))
    assert found is not None
    assert (found.compared, found.equal, found.first_difference) == (2, 2, {})
    assert found.sentence == "all 2 greedy answers are the same"


def test_the_first_difference() -> None:
    found = lossless(arm((1, 2, 3), (3, 4), (5,)), arm((1, 9, 3), (3, 4, 5), (5,)))
    assert found is not None
    assert (found.compared, found.equal) == (3, 1)
    assert found.first_difference == {"p0": 1, "p1": 2}
    assert "1 of 3 greedy answers are the same; the first differences are at tokens 1, 2" in (
        found.sentence
    )


def test_the_earliest_of_a_prompts_repeats() -> None:
    def twice(*places: int) -> Run:
        return run(
            [
                answer(0, repeat=r, output_token_ids=(*range(at), 99, 7))
                for r, at in enumerate(places)
            ],
            **GREEDY,
        )

    found = lossless(twice(3, 5), twice(6, 6))
    assert found is not None
    assert (found.compared, found.equal, found.first_difference) == (2, 0, {"p0": 3})


def test_text_hashes_where_a_side_has_no_ids() -> None:
    same = lossless(arm(None, (1,)), arm(None, (1,)))
    assert same is not None
    assert (same.compared, same.equal) == (2, 2)
    one_sided = lossless(arm(None), arm((1,)))
    assert one_sided is not None
    assert (one_sided.compared, one_sided.equal, one_sided.first_difference) == (1, 0, {})


def test_nothing_known_of_an_answer() -> None:
    blank = run([answer(0, output_sha256=None)], **GREEDY)
    found = lossless(blank, blank)
    assert found is not None
    assert found.compared == 0
    assert "could not be compared" in found.sentence


def test_failed_answers_and_other_prompts_are_left_out() -> None:
    assert lossless(run([failed(0)], **GREEDY), run([answer(0)], **GREEDY)) is None
    assert lossless(run([answer(0)], **GREEDY), run([answer(1)], **GREEDY)) is None
    assert lossless(imported(records=[answer(0)]), imported(records=[answer(0)])) is None


def test_sampled_answers_are_not_compared() -> None:
    mine = run([answer(0, finish_reason="stop"), answer(1)])
    theirs = run([answer(0, gaps=(20,) * 9), answer(1)])
    found = lossless(mine, theirs)
    assert found is not None
    assert (found.compared, found.equal) == (0, 0)
    assert found.sentence == (
        "answers are sampled (temperature 0.6) and cannot be compared; finish reasons agree in "
        "1 of 2, and mean lengths are 4 against 7 tokens"
    )
