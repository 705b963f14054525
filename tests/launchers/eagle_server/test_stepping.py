from collections.abc import Generator

import pytest

from server_launchers.eagle_server.stepping import Acceptance, Step, answer_steps

END = frozenset({9, 8})


def blocks(*given: list[int]) -> Generator[list[int], None, None]:
    yield from given


def test_every_block_is_a_step_with_one_token_of_the_target_and_the_accepted_drafts() -> None:
    steps = list(answer_steps(blocks([1], [2, 3, 4], [5, 9]), 100, END))
    assert steps == [Step((1,), 0), Step((2, 3, 4), 2), Step((5, 9), 1, "stop")]


def test_what_stands_behind_the_end_is_cut_and_its_drafts_still_count() -> None:
    assert list(answer_steps(blocks([1, 9, 2, 3]), 100, END)) == [Step((1, 9), 3, "stop")]


def test_any_of_several_end_tokens_ends_the_answer_and_the_first_one_cuts() -> None:
    assert list(answer_steps(blocks([1, 8, 9]), 100, END)) == [Step((1, 8), 2, "stop")]


def test_the_last_block_is_clipped_to_max_tokens_and_its_drafts_still_count() -> None:
    steps = list(answer_steps(blocks([1, 2], [3, 4, 5]), 3, END))
    assert steps == [Step((1, 2), 1), Step((3,), 2, "length")]


@pytest.mark.parametrize("block", [[1, 2], [1, 2, 3]])
def test_a_block_that_reaches_max_tokens_ends_there(block: list[int]) -> None:
    assert [step.finish for step in answer_steps(blocks(block), 2, END)] == ["length"]


def test_an_end_token_behind_the_limit_is_no_stop() -> None:
    assert list(answer_steps(blocks([1, 2, 9]), 2, END)) == [Step((1, 2), 2, "length")]


def test_an_end_token_as_the_last_allowed_one_is_a_stop() -> None:
    assert list(answer_steps(blocks([1, 9]), 2, END)) == [Step((1, 9), 1, "stop")]


def test_without_end_tokens_only_the_limit_ends_the_answer() -> None:
    steps = list(answer_steps(blocks([9, 8], [9, 1]), 4, frozenset()))
    assert [step.finish for step in steps] == [None, "length"]


def test_a_model_that_stops_by_itself_is_an_error_and_not_a_short_answer() -> None:
    with pytest.raises(RuntimeError, match="after 3 of 5 tokens"):
        list(answer_steps(blocks([1, 2, 3]), 5, END))


def test_the_model_is_closed_as_soon_as_nobody_wants_more() -> None:
    closed = []

    def model() -> Generator[list[int], None, None]:
        try:
            while True:
                yield [1]
        finally:
            closed.append(True)

    held = model()  # else it would be closed for want of references
    steps = answer_steps(held, 100, END)
    next(steps)
    assert not closed
    steps.close()
    assert closed


def test_acceptance_counts_steps_by_accepted_drafts() -> None:
    counts = Acceptance(3)
    for accepted in (0, 3, 1, 3):
        counts.count(Step((), accepted))
    assert counts.histogram == [1, 1, 0, 2]
    assert (counts.steps, counts.accepted, counts.accept_length) == (4, 7, 2.75)
    assert counts.per_position == [3, 2, 2]
