"""`bench-client import`: other tools' output, and engine logs, become runs."""

import sys
from pathlib import Path
from typing import Any

import click

from bench_client.cli.options import results_option


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@results_option
@click.option("--json", "as_json", is_flag=True, help="Print the summaries as JSON.")
@click.option("--quiet", is_flag=True, help="Only name the results folders.")
def import_command(files: tuple[Path, ...], results: Path, as_json: bool, quiet: bool) -> int:
    """Make runs of FILES: result blocks and JSON of sglang.bench_serving, vllm bench serve, AIPerf
    and GuideLLM; logs of SGLang and vLLM servers; EAGLE's lines; notes that mix them with prose.
    - is the standard input.
    """
    from bench_client.cli.show import print_import, print_imports_json
    from bench_client.run.fold import save_run

    read = [_runs(path) for path in files]  # all of them, before anything is written
    found: list[Any] = []
    for runs in read:
        found.append([save_run(run, results) for run in runs])
        if as_json:
            continue
        if not quiet:
            print_import(found[-1])
        for run, _ in found[-1]:
            click.echo(f"results: {run.path}")
    if as_json and not quiet:
        print_imports_json(found)
    return 0


def _runs(path: Path) -> Any:
    from bench_client.cli.errors import ArgumentError
    from bench_client.imports.files import import_bytes

    piped = path == Path("-")
    try:
        data = sys.stdin.buffer.read() if piped else path.read_bytes()
        return import_bytes("standard input" if piped else path.name, data)
    except OSError as error:
        raise ArgumentError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise ArgumentError(str(error)) from error
