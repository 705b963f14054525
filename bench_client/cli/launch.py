"""`bench-client launch`: the same server as a run's, by hand."""

import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from bench_client.cli.options import MOST_IN_FLIGHT, server_options


@click.command()
@click.argument("name")
@click.option("--print", "only_print", is_flag=True, help="Print the shell line instead.")
@click.option(
    "--concurrency",
    type=click.IntRange(1, MOST_IN_FLIGHT),
    default=1,
    show_default=True,
    help="Requests at once that it is to have room for.",
)
@click.option(
    "--log",
    type=click.Path(path_type=Path),
    help="Where the server's output goes [default: NAME-PORT.log].",
)
@server_options
def launch(name: str, only_print: bool, log: Path | None, **given: Any) -> int:
    """Launch server NAME and keep it until Ctrl-C, or print its command for a GPU node."""
    from bench_client.cli.launching import launch_arms, printable_command
    from server_launchers.shell import shell_line

    if only_print:
        command = printable_command(name, given)
        click.echo(_meant(command), err=True)
        click.echo(shell_line(command))
        return 0
    (arm,) = launch_arms({**given, "servers": (name,)})
    return _serve(arm.command, log)


def _meant(command: Any) -> str:
    if command.engine_version or command.engine == "sim":
        return f"for {command.engine} {command.engine_version or ''}".rstrip() + " as it is here"
    return (
        f"for the newest {command.engine} that is known, on CUDA; for one that is here name its"
        " Python by --engine-python"
    )


def _serve(command: Any, log: Path | None) -> int:
    from bench_client.run.interrupts import interruptible
    from server_launchers.process import ServerProcess

    own = Path(f"{command.name}-{urlsplit(command.url).port}.log")
    with interruptible():
        process = ServerProcess.start(command, log or own)
        try:
            return _until_ended(process)
        finally:
            for line in process.stop().warnings:
                click.echo(f"bench-client: {line}", err=True)


def _until_ended(process: Any) -> int:
    from server_launchers.process import LaunchError

    command = process.command
    try:
        click.echo(f"launching {command.name}, its log is {process.log} ...", err=True)
        process.wait_ready()
    except KeyboardInterrupt:
        click.echo(f"bench-client: interrupted while launching {command.name}", err=True)
        raise
    click.echo(f"{command.served_model_name} is served at {command.url}, Ctrl-C ends it")
    sys.stdout.flush()
    try:
        while process.alive():
            time.sleep(0.5)
    except KeyboardInterrupt:
        return 0
    raise LaunchError(f"{command.name}: {process.exit_reason()}")
