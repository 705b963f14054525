"""The command line. One file a command; each imports what it needs when it runs."""

import sys
from importlib import import_module
from typing import Any

import click

from bench_client import __version__

_COMMANDS = {
    "run": "bench_client.cli.run:run",
    "compare": "bench_client.cli.compare:compare",
    "report": "bench_client.cli.report:report",
    "import": "bench_client.cli.import_:import_command",
    "launch": "bench_client.cli.launch:launch",
    "doctor": "bench_client.cli.doctor:doctor",
    "calibrate": "bench_client.cli.calibrate:calibrate",
}


class _Commands(click.Group):
    """Loads a command when it is named; `bench-client --server sim` means `run --server sim`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, name = _COMMANDS[cmd_name].split(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in {"--help", "--version"}):
            args = ["run", *args]
        for arg in args:
            if any("\ud800" <= char <= "\udfff" for char in arg):
                raise click.UsageError(f"{arg!a} is not UTF-8, which every argument has to be")
        return super().parse_args(ctx, args)


@click.command(cls=_Commands, context_settings={"max_content_width": 100})
@click.version_option(__version__, prog_name="bench-client")
def cli() -> None:
    """Measure what speculative decoding buys: vLLM, SGLang and transformers, with and without
    EAGLE3.

    Without a command: `run`. Exit codes: 0 valid; 1 the gate or the run failed; 2 wrong usage;
    3 the server could not be launched; 130 interrupted.
    """


def main(args: list[str] | None = None) -> Any:
    """The console script."""
    from bench_client.cli.errors import exit_code_of
    from bench_client.cli.output import code_after_output, outlive_readers

    outlive_readers()
    try:
        code = cli.main(args=args, prog_name="bench-client", standalone_mode=False)
    except Exception as error:  # noqa: BLE001 (each known kind becomes one line and a code)
        code = exit_code_of(error)
    except KeyboardInterrupt:
        code = 130
    sys.exit(code_after_output(code))
