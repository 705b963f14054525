"""`bench-client import`: other tools' output, and engine logs, become runs."""

from pathlib import Path
from typing import Any

import click

from bench_client.cli.options import results_option


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@results_option
@click.option("--json", "as_json", is_flag=True, help="Print the summaries as JSON.")
@click.option("--quiet", is_flag=True, help="Only name the results folders.")
def import_command(files: tuple[Path, ...], results: Path, as_json: bool, quiet: bool) -> int:
    """Make runs of FILES: result blocks and JSON of sglang.bench_serving, vllm bench serve, AIPerf
    and GuideLLM; logs of SGLang and vLLM servers; EAGLE's lines; notes that mix them with prose.
    """
    from bench_client.cli.show import print_import
    from bench_client.imports.files import import_file
    from bench_client.run.fold import save_run

    found: list[Any] = []
    for path in files:
        try:
            runs = import_file(path.name, _text(path))
        except ValueError as error:
            raise click.ClickException(str(error)) from error
        found.append([save_run(run, results) for run in runs])
    for group in found:
        if not quiet:
            print_import(group, as_json=as_json)
        if not as_json:
            for run, _ in group:
                click.echo(f"results: {run.path}")
    return 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise click.ClickException(f"cannot read {path}: {error.strerror}") from error
