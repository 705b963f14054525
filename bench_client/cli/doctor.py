"""`bench-client doctor`: what is installed, which GPU, which ports, before anything is launched."""

from pathlib import Path
from textwrap import wrap
from typing import Any

import click

from bench_client.cli.errors import LAUNCH
from bench_client.cli.options import results_option

_WIDTH = 100


@click.command()
@click.argument("servers", nargs=-1, metavar="[SERVER]...")
@click.option("--model", help="A model preset, a path or a hub id, as for run.")
@click.option("--draft-model", help="As for run.")
@click.option("--port", type=click.IntRange(1, 65535), help="As for run.")
@click.option("--engine-python", type=click.Path(path_type=Path), help="As for run.")
@click.option("--presets", type=click.Path(path_type=Path), help="A file of your own presets.")
@results_option
def doctor(
    servers: tuple[str, ...], presets: Path | None, results: Path, **given: str | int | Path | None
) -> int:
    """Say what a run would find on this machine.

    With SERVER names: what these need, and exit code 3 if one of them cannot start or its results
    cannot be written.
    """
    from bench_client.run.store import FolderError, check_results
    from server_launchers.doctor import rows
    from server_launchers.presets import load

    python = given.pop("engine_python")
    overrides = {**given, "engine_python": str(python) if python else None}
    refused = None
    try:
        check_results(results)
    except FolderError as error:
        refused = str(error)
    found = rows(load(presets), results, servers, overrides, refused)
    _show(found)
    return LAUNCH if servers and any(row.stops for row in found) else 0


def _show(found: tuple[Any, ...]) -> None:
    """A line for each, and one for what to do; never broken inside a path, which may be copied."""
    width = max(len(row.name) for row in found) + 2
    styles = {"ok": "green", "warning": "yellow", "unusable": "red"}
    for row in found:
        status = click.style(f"{row.status:<10}", fg=styles.get(row.status))
        for at, line in enumerate(_lines(row, _WIDTH - width - 10)):
            click.echo(
                f"{row.name:<{width}}{status}{line}" if at == 0 else " " * (width + 10) + line
            )


def _lines(row: Any, width: int) -> list[str]:
    return [
        line
        for text in (row.detail, f"-> {row.advice}" if row.advice else "")
        for line in wrap(text, width, break_long_words=False, break_on_hyphens=False)
    ]
