"""`bench-client doctor`: what is installed, which GPU, which ports, before anything is launched."""

from pathlib import Path
from typing import Any

import click

from bench_client.cli.errors import LAUNCH
from bench_client.cli.options import results_option


@click.command()
@click.argument("servers", nargs=-1, metavar="[SERVER]...")
@click.option("--model", help="As for run.")
@click.option("--draft-model", help="As for run.")
@click.option("--port", type=click.IntRange(1, 65535), help="As for run.")
@click.option("--engine-python", type=click.Path(path_type=Path), help="As for run.")
@click.option("--presets", type=click.Path(path_type=Path), help="A file of your own presets.")
@results_option
def doctor(
    servers: tuple[str, ...], presets: Path | None, results: Path, **given: str | int | Path | None
) -> int:
    """Say what a run would find on this machine.

    With SERVER names: what these need, and exit code 3 if one of them cannot start.
    """
    from server_launchers.doctor import rows
    from server_launchers.presets import load

    python = given.pop("engine_python")
    overrides = {**given, "engine_python": str(python) if python else None}
    found = rows(load(presets), results, servers, overrides)
    _show(found)
    return LAUNCH if servers and any(row.stops for row in found) else 0


def _show(found: tuple[Any, ...]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("", "", "found", "what to do"):
        table.add_column(heading, overflow="fold")
    styles = {"ok": "green", "warning": "yellow", "missing": "dim", "unusable": "red"}
    for row in found:
        status = f"[{styles[row.status]}]{row.status}[/]"
        table.add_row(escape(row.name), status, escape(row.detail), escape(row.advice))
    Console(width=100, highlight=False).print(table)
