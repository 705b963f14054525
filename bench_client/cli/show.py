"""Reports to the terminal, or as JSON."""

from collections.abc import Sequence
from itertools import permutations

import click
import msgspec
from rich.console import Console, RenderableType

from bench_client.measure.compare import compare
from bench_client.measure.figures import Comparison, Summary
from bench_client.records import Run
from bench_client.report import terminal
from bench_client.report.arms import Report, make_report


def print_report(report: Report) -> None:
    """The report as text: 100 columns, coloured on a terminal only."""
    _print(terminal.report(report))


def print_comparison(report: Report) -> None:
    """The arms side by side, without each one's own tables."""
    _print(terminal.comparison(report))


def print_import(found: Sequence[tuple[Run, Summary]], *, as_json: bool) -> None:
    """Runs of one file: each arm, then each engine with speculation against the same without."""
    pairs = [pair for pair in permutations(found, 2) if _same_engine(pair[0][0], pair[1][0])]
    if as_json:
        whole = make_report(found)
        print_json(whole, [compare(plain, other) for (plain, _), (other, _) in pairs])
        return
    _print(terminal.report(make_report(found)))
    for plain, other in pairs:
        print_comparison(make_report([plain, other], [compare(plain[0], other[0])]))


def _same_engine(plain: Run, other: Run) -> bool:
    """Whether the second is the first with speculation."""
    names = plain.header.server.name, other.header.server.name
    return names[1].startswith(f"{names[0]}-eagle") and plain.header.plan == other.header.plan


def _print(shown: RenderableType) -> None:
    Console(width=terminal.WIDTH, highlight=False).print(shown)


def print_json(report: Report, comparisons: Sequence[Comparison] = ()) -> None:
    """One object: `runs` by name, each a summary with its folder, and `comparisons`."""
    found = {
        "runs": [
            {"name": arm.name, "path": arm.run.path, "summary": arm.summary} for arm in report.arms
        ],
        "comparisons": comparisons or report.comparisons,
    }
    click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
