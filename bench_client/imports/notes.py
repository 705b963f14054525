"""Any text that holds other tools' output, prose around it in any language, as runs.

A benchmark block is a run of its own. Log lines and request lines of one kind are one run up to
the next heading that names a system. A run is labelled by the nearest heading above it.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, Protocol

from msgspec import Struct

from bench_client.imports import offline, server_log, sglang_bench, vllm_bench
from bench_client.imports.across import with_findings
from bench_client.imports.as_run import Source
from bench_client.imports.plain_text import line_of, plain, without_prefixes
from bench_client.imports.printed import find_blocks
from bench_client.imports.results import ENGINES, READS, of_shape, result_runs, tool_of
from bench_client.imports.sglang_log import DecodeLine, decode_lines
from bench_client.imports.systems import any_heading, method_of, server_name, system_heading
from bench_client.imports.vllm_log import SpecLine, engine_lines, spec_lines
from bench_client.records import Run


class Spanned(Protocol):
    """Something read from text[span[0] : span[1]]."""

    @property
    def span(self) -> tuple[int, int]:
        """Where it stands."""


class Piece(Struct, frozen=True):
    """One thing found in a text: where, of which kind, and what was read from it."""

    start: int
    end: int
    kind: str
    value: Any


def _vllm_run(values: Sequence[Any], source: Source) -> Run:
    spec = [value for value in values if isinstance(value, SpecLine)]
    engine = [value for value in values if not isinstance(value, SpecLine)]
    return server_log.vllm_run(engine, spec, source)


# Where JSON may begin: on a line of its own, a list's mark or a backtick before it.
_OBJECT = re.compile(r"^[^\S\n]*(?:[-*•`]+[^\S\n]*)?(?=\{)", re.MULTILINE)
RESULT = " result"

# Kind -> (engine, the pieces of one group -> a run).
KINDS: dict[str, tuple[str, Callable[[Sequence[Any], Source], Run]]] = {
    "sglang block": ("sglang", lambda values, source: sglang_bench.block_run(values[0], source)),
    "vllm block": ("vllm", lambda values, source: vllm_bench.block_run(values[0], source)),
    "sglang log": ("sglang", server_log.decode_run),
    "sglang log, speculative": ("sglang", server_log.decode_run),
    "vllm log": ("vllm", _vllm_run),
    "vllm bar": ("vllm", offline.bars_run),
    "vllm batch": ("vllm", lambda values, source: offline.batch_run(values[0], source)),
    "eagle timing": ("transformers", offline.timings_run),
}


def _results(text: str) -> Iterator[Piece]:
    """JSON of a known tool that begins a line; what else is in braces is none of ours."""
    decoder, end = json.JSONDecoder(), 0
    for match in _OBJECT.finditer(text):
        if match.end() < end:
            continue
        try:
            entry, end = decoder.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            continue
        if tool := tool_of(entry):
            yield Piece(match.end(), end, f"{ENGINES.get(tool, tool)}{RESULT}", entry)


def _pieces(text: str) -> list[Piece]:
    """Everything that is known in a text, in order; what stands inside a result is its own."""
    results = list(_results(text))
    found = [
        *(_piece("sglang block" if b.is_sglang else "vllm block", b) for b in find_blocks(text)),
        *(_piece(_log_kind(line), line) for line in decode_lines(text)),
        *(_piece("vllm log", line) for line in engine_lines(text)),
        *(_piece("vllm log", line) for line in spec_lines(text)),
        *(
            _piece("vllm bar" if bar.prompts == 1 else "vllm batch", bar)
            for bar in offline.bars(text)
        ),
        *(_piece("eagle timing", timing) for timing in offline.timings(text)),
    ]
    found = [piece for piece in found if not any(r.start <= piece.start < r.end for r in results)]
    return sorted([*results, *found], key=lambda piece: piece.start)


def _log_kind(line: DecodeLine) -> str:
    return "sglang log" if line.accept_length is None else "sglang log, speculative"


def _piece(kind: str, value: Spanned) -> Piece:
    return Piece(*value.span, kind, value)


def _groups(text: str) -> list[list[Piece]]:
    """Neighbours of one kind, unless a heading that names a system stands between."""
    groups: list[list[Piece]] = []
    for piece in _pieces(text):
        last = groups[-1][-1] if groups else None
        joins = (
            last is not None
            and last.kind == piece.kind
            and not piece.kind.endswith(("block", "batch", RESULT))
            and not system_heading(text[last.end : piece.start])
        )
        if joins:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups


def _source(label: str | None, kind: str, name: str, text: str) -> Source:
    if label is None:
        return Source(file=name)
    method = method_of(label, text)
    engine = KINDS[kind][0] if kind in KINDS else kind.removesuffix(RESULT)
    return Source(file=name, label=label, server=server_name(label, engine, method), method=method)


def _runs(text: str, group: Sequence[Piece], source: Source) -> Sequence[Run]:
    first = group[0]
    where = f"{source.file}: line {line_of(text, first.start)}"
    if first.kind.endswith(RESULT):
        return result_runs(first.value, source, where)
    values = [piece.value for piece in group]
    return of_shape(first.kind, where, lambda: [KINDS[first.kind][1](values, source)])


def import_text(text: str, name: str) -> list[Run]:
    """Every run that a text holds. ValueError if it holds none, or one that cannot be read."""
    text = without_prefixes(plain(text))
    runs: list[Run] = []
    used: dict[str, count[int]] = {}
    heading: str | None = None
    end = 0
    try:
        groups = _groups(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    for group in groups:
        heading = any_heading(text[end : group[0].start]) or heading
        end = group[-1].end
        label = heading
        if heading is not None:
            nth = next(used.setdefault(heading, count(1)))
            label = heading if nth == 1 else f"{heading} ({nth})"
        runs += _runs(text, group, _source(label, group[0].kind, name, text))
    if not runs:
        raise ValueError(f"{name}: nothing to import was found in it; this reads {READS}")
    return with_findings(runs)
