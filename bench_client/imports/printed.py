"""The result block that sglang.bench_serving and `vllm bench serve` print, found in any text.

Spacing differs where a note was retyped, header or closing line may be missing, and a log puts
something in front of every line.
"""

import math
import re
from collections.abc import Iterator

from msgspec import Struct

from bench_client.imports.names import label_key

_LABEL = re.compile(r"\s*(\S.{0,58}?)\s*[:：](?:\s+(\S.*?))?\s*$")
_TRAILER = re.compile(r"\s*={10,}\s*$")
_SECTION = re.compile(r"\s*-{3,}[^-].*-{3,}\s*$")
_DIGITS = re.compile(r"-?(?:\d{1,3}(?:[,_'\u00a0\u202f]\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?")
# What logs put before a line, in any order: [rank0]:, (APIServer pid=1), client-1 |, 0:, a syslog
# head, a time, a level, a logger's name.
_PREFIX = re.compile(
    r"""\s*+(?:(?:
        \[[^\]\n]{1,60}\]:?
      | \([^()\n]{1,40}\)(?=\s)
      | [\w./-]{0,60}\s*\|
      | \d{1,4}:(?=\s)
      | [A-Z][a-z]{2}\ +\d+\ \d\d:\d\d:\d\d\ \S+\ \S+\[\d+\]:
      | (?:\d{4}[-/])?\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?
      | \d\d:\d\d:\d\d(?:[.,]\d+)?
      | (?:DEBUG|INFO|WARN|WARNING|ERROR)\b:?
      | [\w.]+:\w+:\d+(?=\s+-)
      | [-*•](?=\s)
    )\s*+)+""",
    re.VERBOSE,
)

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
    """Begin, end and text of each line, the text without what a log puts before it."""
    at = 0
    for line in text.splitlines(keepends=True):
        prefix = _PREFIX.match(line) if len(line) <= 2 * LONGEST_LINE else None
        yield at, at + len(line), line[prefix.end() :] if prefix else line
        at += len(line)


def _label(line: str) -> tuple[str, str] | None:
    match = _LABEL.match(line) if len(line) <= LONGEST_LINE else None
    return (" ".join(match.group(1).lower().split()), match.group(2) or "") if match else None


def _ends_block(line: str, values: dict[str, str]) -> bool:
    """A new header, prose, the closing line, or a label that the block already has."""
    label = _label(line)
    if label is None:
        return bool(line.strip()) and not _SECTION.match(line)
    known = label_key(label[0]) is not None
    return label[0] in values if known else not label[1]


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
        label = _label(line)
        if label is not None and label_key(label[0]) is not None:
            start = start if values else at
            values[label[0]] = label[1]
            end = line_end
    return [b for b in found if len(b.values) >= MIN_LINES and "successful requests" in b.values]
