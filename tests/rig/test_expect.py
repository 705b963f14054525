import json
from pathlib import Path

import pytest

from tests.rig import expect, tokenizer
from tests.rig.expect import Language

# Two languages with cycles of 5 tokens: 0..4 (then 5..7 enter it) and 8..12 (then 13..19 enter it).
RIG = (
    Language("easy", first=0, stop=8, cycle=5, miss=0.2, bad=frozenset({3})),
    Language("hard", first=8, stop=20, cycle=5, miss=0.6, bad=frozenset({8, 9, 12})),
)


def test_walk_goes_round_the_cycle_of_the_last_prompt_token() -> None:
    assert expect.walk(RIG, 3, 4) == [4, 0, 1, 2]
    assert expect.walk(RIG, 11, 4) == [12, 8, 9, 10]


@pytest.mark.parametrize(("entry", "first"), [(5, 1), (7, 3), (13, 9), (19, 10)])
def test_a_token_outside_the_cycle_enters_it_at_its_place(entry: int, first: int) -> None:
    assert expect.walk(RIG, entry, 1) == [first]


def test_a_token_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match="token 20 is not in"):
        expect.walk(RIG, 20, 1)


def test_blocks_end_with_the_miss_or_with_the_bonus_token() -> None:
    # After 4: prefill gives 0; then [1, 2, 3 is missed], [4, 0, bonus 1], [2, 3 is missed].
    assert expect.verify_blocks(RIG, 4, n_output=9, drafts=2) == [3, 3, 2]
    # With one draft a step: [1, bonus 2], [3 missed], [4, bonus 0], [1, bonus 2], [3 missed].
    assert expect.verify_blocks(RIG, 4, n_output=9, drafts=1) == [2, 1, 2, 2, 1]


def test_a_bad_token_in_the_bonus_place_costs_nothing() -> None:
    # After 4: prefill gives 0, the step accepts 1 and 2, and the bad 3 is the target's own token.
    assert expect.verify_blocks(RIG, 4, n_output=4, drafts=2) == [3]


@pytest.mark.parametrize(
    ("n_output", "steps"), [(0, 0), (1, 0), (2, 1), (4, 1), (5, 2), (7, 2), (8, 3), (9, 3)]
)
def test_the_prefill_gives_one_token_and_the_last_block_may_be_cut(
    n_output: int, steps: int
) -> None:
    assert expect.expected_steps(RIG, 4, n_output, drafts=2) == steps


def test_every_output_length_is_covered_and_no_step_is_idle() -> None:
    for start in range(20):
        for n_output in range(2, 60):
            blocks = expect.verify_blocks(RIG, start, n_output, drafts=3)
            assert sum(blocks) >= n_output - 1 > sum(blocks[:-1])
            assert all(1 <= block <= 4 for block in blocks)


def test_accept_length_is_tokens_over_steps_and_differs_by_language() -> None:
    assert expect.expected_accept_length(RIG, 4, 9, drafts=2) == 3.0
    easy = expect.expected_accept_length(RIG, 0, 1001, drafts=3)
    hard = expect.expected_accept_length(RIG, 8, 1001, drafts=3)
    # Worked out by hand; x marks a miss. Easy: [2, 3x], then [4, 0, 1, 2], [3x] again and again:
    # 5 tokens every 2 steps.
    assert easy == pytest.approx(2.5, rel=0.01)
    # Hard: [10, 11, 12x], [8x], [9x] again and again: 5 tokens every 3 steps.
    assert hard == pytest.approx(5 / 3, rel=0.01)


def test_load_reads_what_the_generator_writes(tmp_path: Path) -> None:
    language = {"name": "easy", "first": 0, "stop": 8, "cycle": 5, "miss": 0.2, "bad": [3]}
    path = tmp_path / "rig.json"
    path.write_text(json.dumps({"shape": "tiny", "seed": 7, "languages": [language]}))
    assert expect.load(path) == RIG[:1]


def test_each_generated_piece_is_visible_complete_text_of_its_own_language() -> None:
    english, chinese = (
        pieces[: tokenizer.CYCLE] for pieces in (tokenizer.ENGLISH, tokenizer.CHINESE)
    )
    assert all(piece.strip().isalpha() and piece.isascii() for piece in english)
    assert all(len(piece) == 1 and "一" <= piece <= "龥" for piece in chinese)
    assert len(set(english) | set(chinese)) == 2 * tokenizer.CYCLE
    assert len(set(tokenizer.PIECES)) == len(tokenizer.PIECES)


def test_every_byte_has_a_token_so_that_any_text_can_be_encoded() -> None:
    for byte in range(256):
        piece = tokenizer.token_id(f"<0x{byte:02X}>")
        assert (piece < len(tokenizer.ENGLISH)) == (byte < 0x80)
