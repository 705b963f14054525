"""`bench-client report`: figures from saved records, as often as wanted."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from bench_client.cli.options import options

_forms = options(
    click.option("--html", "form", flag_value="html", help="One self-contained page."),
    click.option("--markdown", "form", flag_value="markdown", help="GitHub tables."),
    click.option("--json", "form", flag_value="json", help="The summaries."),
    click.option(
        "--sglang",
        metavar="[VERSION]",
        is_flag=False,
        flag_value="latest",
        help="As that version of sglang.bench_serving prints it.",
    ),
    click.option("--strict", is_flag=True, help="With --sglang: nothing of our own behind it."),
    click.option(
        "--sglang-jsonl",
        type=click.Path(path_type=Path),
        help="Append each run to FILE as sglang.bench_serving does.",
    ),
    click.option(
        "--vllm-json",
        type=click.Path(path_type=Path),
        help="Write the run to FILE as vllm bench serve does.",
    ),
)


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@_forms
def report(runs: tuple[Path, ...], **given: Any) -> int:
    """Report on RUNS, results folders; the first is the baseline of the comparison."""
    from bench_client.run.fold import fold

    found = [fold(path) for path in runs]
    if given["strict"] and not given["sglang"]:
        raise click.UsageError("--strict goes with --sglang")
    if given["sglang"]:
        _print_blocks(found, given["sglang"], strict=given["strict"])
    if given["sglang_jsonl"] or given["vllm_json"]:
        _write_foreign(found, given["sglang_jsonl"], given["vllm_json"])
    if not any(given[name] for name in ("sglang", "sglang_jsonl", "vllm_json")):
        _print(found, given["form"])
    return 0


def _print(found: Sequence[Any], form: str | None) -> None:
    from bench_client.cli.show import print_json, print_report
    from bench_client.measure.compare import compare
    from bench_client.report import html, markdown
    from bench_client.report.arms import make_report

    comparisons = [compare(found[0][0], other) for other, _ in found[1:]]
    made = make_report(found, comparisons)
    if form == "json":
        print_json(made)
    elif form is None:
        print_report(made)
    else:
        click.echo(html.report(made) if form == "html" else markdown.report(made))


def _print_blocks(found: Sequence[Any], version: str, *, strict: bool) -> None:
    from bench_client.report.sglang_block import LATEST, sglang_block

    wanted = LATEST if version == "latest" else version
    for run, summary in found:
        try:
            block = sglang_block(run, summary, wanted, strict=strict)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        click.echo(block, nl=False)


def _write_foreign(found: Sequence[Any], jsonl: Path | None, vllm: Path | None) -> None:
    from bench_client.report.sglang_jsonl import sglang_jsonl
    from bench_client.report.vllm_json import vllm_json

    if vllm and len(found) > 1:
        raise click.UsageError("--vllm-json writes one run: give one")
    try:
        if jsonl:
            with jsonl.open("a", encoding="utf-8") as file:
                file.writelines(_line(sglang_jsonl(run, summary)) for run, summary in found)
        if vllm:
            vllm.write_text(_line(vllm_json(*found[0])), encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {error.filename}: {error.strerror}") from error


def _line(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"
