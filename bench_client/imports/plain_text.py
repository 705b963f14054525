"""A file's bytes as text, without what terminals, mails and logs add to it."""

import codecs
import re
from collections import Counter

_BYTE_ORDER_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
# What follows the first byte of a character in UTF-8.
_CONTINUATION = bytes(range(0x80, 0xC0))
# Escape sequences: CSI (colours), OSC (titles, links), and those of two characters.
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\^_])")
# "> " once or more; ">>>" is Python's prompt.
_QUOTE = re.compile(r"^(?![ \t]*>>>)[ \t]*(?:>[ \t]?)+", re.MULTILINE)
# Every printed result has this line, and prose has none like it.
_PREFIX = re.compile(
    r"^(.{0,160}?)successful\s+requests[\s*`]*[:：|]", re.IGNORECASE | re.MULTILINE
)
# A text with more forms of log lines than these is none that holds results.
_FORMS = 16


def decoded(data: bytes) -> str:
    """Text of UTF-8, of UTF-16 by its mark or by its zeros, or of GB18030 (GBK), tried in this
    order; the first and last character may be cut, and a few bytes of UTF-8 broken. ValueError for
    bytes of none of them.
    """
    wide = _BYTE_ORDER_MARKS.get(data[:2]) or _unmarked(data[: 1 << 16])
    text = _read(data, wide) if wide else _read(data.lstrip(_CONTINUATION), "utf-8")
    if text is not None:
        return text
    mended = data.decode("utf-8", "replace")
    broken = mended.count("\ufffd")
    whole = sum(not char.isascii() for char in mended) - broken
    if broken * 10 <= whole:  # of GB18030 read as UTF-8 next to nothing is whole
        return mended
    text = _read(data, "gb18030")
    if text is not None and "\0" not in text:
        return text
    if broken * 100 > len(mended) or "\0" in mended:
        raise ValueError("no text in UTF-8, UTF-16 or GB18030: save it as UTF-8")
    return mended


def _read(data: bytes, encoding: str) -> str | None:
    try:
        return codecs.getincrementaldecoder(encoding)().decode(data)
    except UnicodeDecodeError:
        return None


def _unmarked(start: bytes) -> str | None:
    """UTF-16 of mostly ASCII has a zero in every second place."""
    for at, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        zeros = start[at::2].count(0)
        if zeros > len(start) / 4 and zeros > 2 * start[1 - at :: 2].count(0):
            return name
    return None


def plain(text: str) -> str:
    """The text without colours, quote marks and byte order mark; its lines stay where they are."""
    return _QUOTE.sub("", _ANSI.sub("", text.removeprefix("\ufeff")))


def without_prefixes(text: str) -> str:
    """The text without what a log puts before each line: what stands before a result's count of
    requests (a time, a pod, a level), whatever its numbers, is none of the other lines' either.
    """
    found = (match.group(1) for match in _PREFIX.finditer(text))
    forms = Counter(_form(prefix) for prefix in found if re.search(r"\w.*\W$", prefix))
    common = sorted((form for form, _ in forms.most_common(_FORMS)), key=len, reverse=True)
    return re.sub(f"^(?:{'|'.join(common)})", "", text, flags=re.MULTILINE) if common else text


def _form(prefix: str) -> str:
    """A pattern of the same words with any numbers and spacing."""
    form = re.escape(re.sub(r"\s+", " ", prefix))
    return re.sub(r"\d+", r"\\d+", form).replace(r"\ ", r"(?:[^\S\n]+|$)")


def line_of(text: str, at: int) -> int:
    """The line of a place in a text, from 1."""
    return text.count("\n", 0, at) + 1
