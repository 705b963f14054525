"""`bench-client launch`: the same server as a run's, by hand."""

import sys
import time
from pathlib import Path
from typing import Any

import click

from bench_client.cli.options import MOST_IN_FLIGHT, server_options


@click.command()
@click.argument("name")
@click.option("--print", "only_print", is_flag=True, help="Print the shell line instead.")
@click.option("--concurrency", type=click.IntRange(1, MOST_IN_FLIGHT), default=1, show_default=True)
@click.option(
    "--log",
    type=click.Path(path_type=Path),
    default=Path("server.log"),
    show_default=True,
    help="Where the server's output goes.",
)
@server_options
def launch(name: str, only_print: bool, log: Path, **given: Any) -> int:
    """Launch server NAME and keep it until Ctrl-C, or print its command for a GPU node."""
    from bench_client.cli.launching import launch_arms, printable_command
    from server_launchers.shell import shell_line

    if only_print:
        click.echo(shell_line(printable_command(name, given)))
        return 0
    (arm,) = launch_arms({**given, "servers": (name,)})
    return _serve(arm.command, log)


def _serve(command: Any, log: Path) -> int:
    from bench_client.cli.experiment import terminable
    from server_launchers.process import LaunchError, ServerProcess

    with terminable(), ServerProcess.start(command, log) as process:
        click.echo(f"launching {command.name}, its log is {log} ...", err=True)
        process.wait_ready()
        click.echo(f"{command.served_model_name} is served at {command.url}, Ctrl-C ends it")
        sys.stdout.flush()
        try:
            while process.alive():
                time.sleep(0.5)
        except KeyboardInterrupt:
            return 0
        raise LaunchError(f"{command.name}: {process.exit_reason()}")
