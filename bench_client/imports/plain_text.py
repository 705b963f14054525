"""A file's bytes as text, without what terminals and mails add to it."""

import codecs
import re

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Escape sequences: CSI (colours), OSC (titles, links), and those of two characters.
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\^_])")
# "> " once or more; ">>>" is Python's prompt.
_QUOTE = re.compile(r"^(?![ \t]*>>>)[ \t]*(?:>[ \t]?)+", re.MULTILINE)


def decoded(data: bytes) -> str:
    """Text of UTF-8, or of UTF-16 by its mark or by its zeros; bytes of neither become U+FFFD."""
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), None)
    return data.decode(encoding or _unmarked(data[:1024]), errors="replace")


def _unmarked(start: bytes) -> str:
    """UTF-16 of mostly ASCII has a zero in every second place."""
    for at, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        zeros = start[at::2].count(0)
        if zeros > len(start) / 4 and zeros > 2 * start[1 - at :: 2].count(0):
            return name
    return "utf-8"


def plain(text: str) -> str:
    """The text without colours, quote marks and byte order mark; its lines stay where they are."""
    return _QUOTE.sub("", _ANSI.sub("", text.removeprefix("\ufeff")))


def line_of(text: str, at: int) -> int:
    """The line of a place in a text, from 1."""
    return text.count("\n", 0, at) + 1
