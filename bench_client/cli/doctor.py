"""`bench-client doctor`: what is installed, which GPU, which ports, before anything is launched."""

from pathlib import Path

import click

from bench_client.cli.options import results_option


@click.command()
@click.option("--engine-python", type=click.Path(path_type=Path), help="As for run.")
@click.option("--presets", type=click.Path(path_type=Path), help="A file of your own presets.")
@results_option
def doctor(engine_python: Path | None, presets: Path | None, results: Path) -> int:
    """Say what a run would find on this machine."""
    from rich.console import Console
    from rich.table import Table

    from server_launchers.doctor import rows
    from server_launchers.presets import load

    table = Table(box=None, pad_edge=False)
    for heading in ("", "", "found", "what to do"):
        table.add_column(heading)
    styles = {"ok": "green", "warning": "yellow", "missing": "dim"}
    for row in rows(load(presets), results, str(engine_python) if engine_python else None):
        status = f"[{styles[row.status]}]{row.status}[/]"
        table.add_row(row.name, status, row.detail, row.advice)
    Console(width=100, highlight=False).print(table)
    return 0
