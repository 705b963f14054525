"""Reports to the terminal, or as JSON."""

import click
import msgspec
from rich.console import Console, RenderableType

from bench_client.report import terminal
from bench_client.report.arms import Report


def print_report(report: Report) -> None:
    """The report as text: 100 columns, coloured on a terminal only."""
    _print(terminal.report(report))


def print_comparison(report: Report) -> None:
    """The arms side by side, without each one's own tables."""
    _print(terminal.comparison(report))


def _print(shown: RenderableType) -> None:
    Console(width=terminal.WIDTH, highlight=False).print(shown)


def print_json(report: Report) -> None:
    """One object: `runs` by name, each a summary with its folder, and `comparisons`."""
    found = {
        "runs": [
            {"name": arm.name, "path": arm.run.path, "summary": arm.summary} for arm in report.arms
        ],
        "comparisons": report.comparisons,
    }
    click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
