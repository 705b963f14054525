"""The result block that sglang.bench_serving and `vllm bench serve` print, found in any text.

Spacing differs where a note was retyped, a table or list puts marks around every line, and header
or closing line may be missing.
"""

import math
import re
from collections.abc import Iterator

from msgspec import Struct

from bench_client.imports.names import LABEL, label_key

# What tables, lists, quotes, diffs and bold print put around a label or its value.
_MARKS = r"[\s|>*+`•-]*"
_END = r"[\s|*`]*$"
_KNOWN = re.compile(rf"{_MARKS}({LABEL})[\s*`]*[:：|][\s|*`]*(.*?){_END}", re.IGNORECASE)
_LABEL = re.compile(r"\s*\S.{0,58}?\s*[:：](?:\s+(\S.*?))?\s*$")
_TRAILER = re.compile(rf"{_MARKS}={{10,}}{_END}")
_SECTION = re.compile(rf"{_MARKS}-{{3,}}[^-].*-{{3,}}{_END}|[\s|:+-]+$")
_DIGITS = re.compile(r"-?(?:\d{1,3}(?:[,_'\u00a0\u202f]\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?")
# Prose may hold a label or two; a block holds at least this many, the request count among them.
MIN_LINES = 5
# Printed lines are far shorter; lines of a log are not worth a closer look.
LONGEST_LINE = 160
# What a setting or an unknown figure may say instead of a number.
_WORDS = {"", "inf", "not set", "none", "unknown"}
# The last label of each tool's block; some of vLLM's sections are only there if asked for.
_SGLANG_END = re.compile(r"max itl \(ms\)|cache hit rate|total cached tokens")
_VLLM_END = re.compile(r"p[\d.]+ (?:itl|e2el|client queue time|e2el .*) \(ms\)|position \d+")


class Block(Struct, frozen=True):
    """One printed block: where it stands, label -> value as printed, and if its end is there."""

    span: tuple[int, int]
    values: dict[str, str]
    closed: bool = False

    @property
    def is_sglang(self) -> bool:
        """Only sglang names its backend."""
        return "backend" in self.values

    @property
    def cut_after(self) -> str | None:
        """Its last label, if the lines are missing that its tool prints below."""
        last = list(self.values)[-1]
        end = _SGLANG_END if self.is_sglang else _VLLM_END
        return None if self.closed or end.fullmatch(last) else last

    def figures(self) -> dict[str, float | None]:
        """Its numbers under their names here; a percentage stays one."""
        keys = ((label_key(label), value) for label, value in self.values.items())
        return {key: number(value) for key, value in keys if key}

    def setting(self, *labels: str) -> float | None:
        """The number of the first of the labels that is there; None for "inf" or "not set"."""
        return next((number(self.values[label]) for label in labels if label in self.values), None)

    def findings(self) -> tuple[str, ...]:
        """What of it could not be read, in sentences."""
        unread = [
            f"“{label}: {value}” is not a number and is left out."
            for label, value in self.values.items()
            if label != "backend" and number(value) is None and value.lower() not in _WORDS
        ]
        if self.cut_after:
            unread.append(f"The block is cut off after “{self.cut_after}”: the rest is unknown.")
        return tuple(unread)


def number(value: str) -> float | None:
    """A printed number, thousands separated or not, or a percentage; None for anything else."""
    match = _DIGITS.fullmatch(value.removesuffix("%").rstrip())
    found = float(re.sub(r"[^-+.\deE]", "", match.group())) if match else math.nan
    return found if math.isfinite(found) else None


def _lines(text: str) -> Iterator[tuple[int, int, str]]:
    """Begin, end and text of each line."""
    at = 0
    for line in text.splitlines(keepends=True):
        yield at, at + len(line), line
        at += len(line)


def _known(line: str) -> tuple[str, str] | None:
    """Label and value of a line that a tool prints."""
    match = None if len(line) > LONGEST_LINE else _KNOWN.match(line)
    return (" ".join(match.group(1).lower().split()), match.group(2)) if match else None


def _ends_block(line: str, values: dict[str, str]) -> bool:
    """A new header, prose, the closing line, or a label that the block already has."""
    if known := _known(line):
        return known[0] in values
    if not line.strip() or len(line) > LONGEST_LINE:
        return bool(line.strip())
    other = _LABEL.match(line)
    return not other.group(1) if other else not _SECTION.match(line)


def find_blocks(text: str) -> list[Block]:
    """Every printed block of a text, in order; blank lines and unknown labels may stand inside."""
    found: list[Block] = []
    values: dict[str, str] = {}
    start = end = 0
    for at, line_end, line in [*_lines(text), (len(text), len(text), "end")]:
        if values and _ends_block(line, values):
            closed = bool(_TRAILER.match(line))
            found.append(Block((start, line_end if closed else end), values, closed))
            values = {}
        if known := _known(line):
            start = start if values else at
            values[known[0]] = known[1]
            end = line_end
    if found and not text[-1].isspace():
        found[-1] = _without_stump(found[-1], len(text))
    return [b for b in found if len(b.values) >= MIN_LINES and "successful requests" in b.values]


def _without_stump(block: Block, end: int) -> Block:
    """The block without its last value if the text is cut off within that line."""
    if block.span[1] < end or block.cut_after is None:
        return block
    return Block(block.span, dict(list(block.values.items())[:-1]))
