"""The result block that sglang.bench_serving and `vllm bench serve` print, found in any text.

Spacing differs where a note was retyped, and header or closing line may be missing.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from bench_client.imports.names import label_key

_LABEL = re.compile(r"\s*(\S.{0,58}?)\s*[:：](?:\s+(\S.*?))?\s*$")
_TRAILER = re.compile(r"\s*={10,}\s*$")
_SECTION = re.compile(r"\s*-{3,}[^-].*-{3,}\s*$")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?=\s*%?$)")

# Prose may hold a label or two; a block holds at least this many, the request count among them.
MIN_LINES = 5
# Printed lines are far shorter; lines of a log are not worth a closer look.
LONGEST_LINE = 160


class Block(Struct, frozen=True):
    """One printed block: where it stands, and label -> value as printed."""

    span: tuple[int, int]
    values: dict[str, str]

    @property
    def is_sglang(self) -> bool:
        """Only sglang names its backend."""
        return "backend" in self.values

    def figures(self) -> dict[str, float | None]:
        """Its numbers under their names here; a percentage stays one."""
        keys = ((label_key(label), value) for label, value in self.values.items())
        return {key: number(value) for key, value in keys if key}

    def setting(self, *labels: str) -> float | None:
        """The number of the first of the labels that is there; None for "inf" or "not set"."""
        return next((number(self.values[label]) for label in labels if label in self.values), None)


def number(value: str) -> float | None:
    """A printed number; None for a word."""
    match = _NUMBER.match(value)
    return float(match.group()) if match else None


def _lines(text: str) -> Iterator[tuple[int, int, str]]:
    at = 0
    for line in text.splitlines(keepends=True):
        yield at, at + len(line), line
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
            found.append(Block((start, line_end if _TRAILER.match(line) else end), values))
            values = {}
        label = _label(line)
        if label is not None and label_key(label[0]) is not None:
            start = start if values else at
            values[label[0]] = label[1]
            end = line_end
    return [b for b in found if len(b.values) >= MIN_LINES and "successful requests" in b.values]
