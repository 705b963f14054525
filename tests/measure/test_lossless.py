"""Answers of two arms, greedy and sampled."""

from typing import Any

import msgspec

from bench_client.measure.lossless import lossless
from bench_client.records import Run, Sampling

from .runs import answer, failed, imported, run

GREEDY = {"plan": {"sampling": Sampling(temperature=0.0)}}


def arm(*answers: tuple[int, ...] | None, **parts: Any) -> Run:
    """One prompt for each answer; null: token ids are not known."""
    records = [
        answer(i, output_token_ids=ids, output_sha256=f"hash of {ids}", finish_reason="stop")
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


def capped(at: int, **fields: Any) -> Run:
    """Three answers of 60 tokens, the last of which ends by itself after 20, cut at `at`."""
    records = []
    for i, whole in enumerate((60, 60, 20)):
        ids = tuple(range(min(whole, at)))
        known = {"output_token_ids": ids, "output_tokens": len(ids), "output_sha256": f"{i} {ids}"}
        end = "length" if at < whole else "stop"
        records.append(answer(i, finish_reason=end, **{**known, **fields}))
    return run(records, **GREEDY)


def test_unlike_token_limits_are_no_difference() -> None:
    found = lossless(capped(40), capped(30))
    assert found is not None
    assert (found.compared, found.equal, found.cut, found.first_difference) == (3, 3, 2, {})
    assert found.finish_reasons_differ == 0
    assert found.sentence == (
        "all 3 greedy answers are the same, 2 of them up to where a token limit cuts one"
    )
    uncut = lossless(capped(100), capped(30))
    assert uncut is not None
    assert (uncut.equal, uncut.finish_reasons_differ) == (3, 0)
    every = lossless(capped(15), capped(10))
    assert every is not None
    assert every.sentence == (
        "all 3 greedy answers are the same up to where a token limit cuts one"
    )


def test_a_cut_answer_may_differ_before() -> None:
    mine = run([answer(0, output_token_ids=(1, 2, 3, 4), finish_reason="length")], **GREEDY)
    theirs = run([answer(0, output_token_ids=(1, 9), finish_reason="length")], **GREEDY)
    found = lossless(mine, theirs)
    assert found is not None
    assert (found.compared, found.equal, found.first_difference) == (1, 0, {"p0": 1})


def test_an_answer_that_ends_early_by_itself_differs() -> None:
    """The same limit: the shorter one stopped, and no limit explains it."""
    mine = run([answer(0, output_token_ids=(1, 2, 3, 4), finish_reason="length")], **GREEDY)
    theirs = run([answer(0, output_token_ids=(1, 2), finish_reason="stop")], **GREEDY)
    found = lossless(mine, theirs)
    assert found is not None
    assert (found.equal, found.first_difference, found.finish_reasons_differ) == (0, {"p0": 2}, 1)


def test_a_hash_says_nothing_of_a_cut_answer_but_the_text_does() -> None:
    hashed = lossless(*(capped(at, output_token_ids=None) for at in (40, 30)))
    assert hashed is not None
    assert (hashed.compared, hashed.equal, hashed.uncompared) == (1, 1, 2)
    assert hashed.sentence.startswith("all 1 comparable greedy answers are the same; 2 of 3")

    def text(said: str, tokens: int) -> Run:
        cut = answer(0, finish_reason="length", output_text=said, output_tokens=tokens)
        return run([msgspec.structs.replace(cut, output_sha256=said)], **GREEDY)

    for longer, equal in (("a wörld", 1), ("b wörld", 0)):
        found = lossless(text(longer, 4), text("a w\ufffd", 3))
        assert found is not None
        assert (found.compared, found.equal) == (1, equal)


def test_what_could_not_be_compared_is_counted() -> None:
    def some(known: int) -> Run:
        records = [answer(i, output_sha256="a" if i < known else None) for i in range(12)]
        return run(records, **GREEDY)

    found = lossless(some(3), some(12))
    assert found is not None
    assert (found.compared, found.equal, found.uncompared) == (3, 3, 9)
    assert found.sentence == (
        "all 3 comparable greedy answers are the same; 9 of 12 could not be compared"
    )


def test_finish_reasons_of_greedy_answers() -> None:
    def ending(*reasons: str) -> Run:
        return run([answer(i, finish_reason=end) for i, end in enumerate(reasons)], **GREEDY)

    found = lossless(ending("stop", "stop", "length"), ending("stop", "length", "length"))
    assert found is not None
    assert found.finish_reasons_differ == 1
    assert found.sentence.endswith("; finish reasons differ in 1 of 3")


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
