"""What went wrong, as one line on stderr and an exit code."""

from typing import IO, Any

import click

INVALID, USAGE, LAUNCH, INTERRUPTED = 1, 2, 3, 130


class ArgumentError(click.ClickException):
    """A file or folder that an argument names is not what the command takes."""

    exit_code = USAGE

    def show(self, file: IO[Any] | None = None) -> None:
        """One line."""
        click.echo(f"bench-client: {self.message}", file=file, err=True)


def exit_code_of(error: Exception) -> int:
    """Print one line and give the exit code; what is not known is raised, it is our own fault."""
    from bench_client.measure.gate import GateError
    from bench_client.plan.scenario import ScenarioError
    from bench_client.run.server_facts import ServerError
    from bench_client.run.store import FolderError, StoreError
    from bench_client.wire.endpoint import EndpointError
    from server_launchers.presets import EngineError, SettingsError
    from server_launchers.process import LaunchError

    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.Abort):
        return INTERRUPTED
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    codes = {
        ScenarioError: USAGE,
        EndpointError: USAGE,
        GateError: USAGE,
        EngineError: LAUNCH,
        SettingsError: USAGE,
        ServerError: INVALID,
        FolderError: USAGE,
        StoreError: INVALID,
        LaunchError: LAUNCH,
    }
    code = next((codes[kind] for kind in codes if isinstance(error, kind)), None)
    if code is None:
        raise error
    click.echo(f"bench-client: {error}", err=True)
    return code
