"""Reports to the terminal, or as JSON."""

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import click
import msgspec
from msgspec.structs import replace
from rich.console import Console, RenderableType

from bench_client.measure.compare import compare
from bench_client.measure.figures import Comparison, Summary
from bench_client.records import Run
from bench_client.report import terminal
from bench_client.report.arms import Report, make_report

Imported = tuple[Run, Summary]


def print_report(report: Report) -> None:
    """The report as text: 100 columns, coloured on a terminal only."""
    _print(terminal.report(report))


def print_comparison(report: Report) -> None:
    """The arms side by side, without each one's own tables."""
    _print(terminal.comparison(report))


def print_import(found: Sequence[Imported]) -> None:
    """Runs of one file: each arm, then each engine with speculation against the same without."""
    _print(terminal.report(make_report(found)))
    for plain, other in _pairs(found):
        print_comparison(make_report([plain, other], [compare(plain[0], other[0])]))


def print_imports_json(files: Sequence[Sequence[Imported]]) -> None:
    """Runs of all files as one object; compared are those of one file, under their names here."""
    report = make_report([each for found in files for each in found])
    names = {id(arm.run): arm.name for arm in report.arms}
    comparisons = [
        replace(compare(plain, other), baseline=names[id(plain)], other=names[id(other)])
        for found in files
        for (plain, _), (other, _) in _pairs(found)
    ]
    print_json(report, comparisons)


def _pairs(found: Sequence[Imported]) -> list[tuple[Imported, Imported]]:
    return [pair for pair in permutations(found, 2) if _same_engine(pair[0][0], pair[1][0])]


def _same_engine(plain: Run, other: Run) -> bool:
    """Whether the second is the first with speculation, of whatever method."""
    names = plain.header.server.name, other.header.server.name
    return names[1].startswith(f"{names[0]}-") and plain.header.plan == other.header.plan


def _print(shown: RenderableType) -> None:
    Console(width=terminal.WIDTH, highlight=False).print(shown)


def print_json(
    report: Report,
    comparisons: Sequence[Comparison] = (),
    gates: Sequence[dict[str, Any]] | None = None,
) -> None:
    """One object: `runs` by name, each a summary with its folder, `comparisons`, and `gates` where
    these may be asked for.
    """
    found: dict[str, Any] = {
        "runs": [
            {"name": arm.name, "path": arm.run.path, "summary": arm.summary} for arm in report.arms
        ],
        "comparisons": comparisons or report.comparisons,
    }
    found |= {} if gates is None else {"gates": gates}
    click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
