"""Text of a growing answer, never half a character. Pure."""

from collections.abc import Callable, Iterable, Sequence

PROMPT_TAIL = 5  # tokens whose decoding shows whether the first one of the answer brings a space
INCOMPLETE = "\ufffd"  # what decoders put where the bytes of a character are not all there


class Detokenizer:
    """Each call gives the text that the new tokens complete.

    A token's text depends on the one before it, so what is decoded is always the last text given
    out and all behind it, and the former is taken off again (the way of vLLM and of TGI).
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], prompt: Sequence[int]) -> None:
        self._decode = decode
        self._ids = list(prompt[-PROMPT_TAIL:])
        self._given = len(self._ids)  # tokens whose text is out

    def add(self, token_ids: Iterable[int]) -> str:
        """The new text; empty while a character is incomplete."""
        self._ids += token_ids
        text = self._decode(self._ids)
        if text.endswith(INCOMPLETE):
            return ""
        before = self._decode(self._ids[: self._given])
        if len(text) <= len(before):
            if before:  # tokens without text, of which ignore_eos can bring thousands
                del self._ids[self._given :]
            return ""
        self._ids = self._ids[self._given :]
        self._given = len(self._ids)
        return text[len(before) :]
