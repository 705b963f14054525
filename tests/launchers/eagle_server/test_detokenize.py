from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from server_launchers.eagle_server.detokenize import Detokenizer

SPECIAL = 256


class Decoder:
    """A token a byte, with a special token that has no text, and a record of the work."""

    def __init__(self) -> None:
        self.decoded = 0

    def __call__(self, token_ids: Sequence[int]) -> str:
        self.decoded += len(token_ids)
        return bytes(token for token in token_ids if token < SPECIAL).decode(errors="replace")


def strip_leading_space(token_ids: Sequence[int]) -> str:
    """As SentencePiece decodes: the space of the first word is lost."""
    return "".join(f" {token}" for token in token_ids).removeprefix(" ")


def test_a_character_comes_whole_with_its_last_byte() -> None:
    detokenizer = Detokenizer(Decoder(), b"prompt")
    first, second, third = "海".encode()
    assert detokenizer.add([first]) == ""
    assert detokenizer.add([second]) == ""
    assert detokenizer.add([third]) == "海"


def test_text_before_an_incomplete_character_waits_for_it() -> None:
    detokenizer = Detokenizer(Decoder(), b"prompt")
    assert detokenizer.add("a海".encode()[:3]) == ""
    assert detokenizer.add("海".encode()[2:]) == "a海"


def test_an_incomplete_character_at_the_end_never_comes() -> None:
    detokenizer = Detokenizer(Decoder(), b"prompt")
    assert detokenizer.add(b"ab") + detokenizer.add("海".encode()[:2]) == "ab"


def test_bytes_that_are_no_character_do_not_hold_up_what_follows() -> None:
    detokenizer = Detokenizer(Decoder(), b"prompt")
    assert detokenizer.add([0xE6]) + detokenizer.add(b"x") + detokenizer.add(b"y") == "\ufffdxy"


def test_the_first_word_keeps_the_space_that_parts_it_from_the_prompt() -> None:
    detokenizer = Detokenizer(strip_leading_space, [1, 2, 3])
    assert detokenizer.add([4, 5]) + detokenizer.add([6]) == " 4 5 6"


def test_an_answer_without_a_prompt_before_it_starts_as_the_decoder_has_it() -> None:
    assert Detokenizer(strip_leading_space, []).add([4, 5]) == "4 5"


def test_thousands_of_tokens_without_text_cost_no_more_each_than_the_first() -> None:
    decoder = Decoder()
    detokenizer = Detokenizer(decoder, b"prompt")
    for _ in range(1000):
        assert detokenizer.add([SPECIAL]) == ""
    assert decoder.decoded < 20_000
    assert detokenizer.add(b"z") == "z"


@given(st.text(), st.lists(st.integers(1, 7)), st.text(max_size=4))
def test_the_pieces_make_the_text_however_it_is_cut(
    text: str, sizes: list[int], prompt: str
) -> None:
    text = text.replace("\ufffd", "")
    data, pieces = text.encode(), []
    detokenizer = Detokenizer(Decoder(), prompt.replace("\ufffd", "").encode())
    for size in sizes:
        pieces.append(detokenizer.add(data[:size]))
        data = data[size:]
    pieces.append(detokenizer.add(data))
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)
