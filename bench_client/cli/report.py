"""`bench-client report`: figures from saved records, as often as wanted."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from bench_client.cli.options import options

_FORMS = ("html", "markdown", "json")


class _Report(click.Command):
    """`--sglang` takes a version if one follows; a folder that follows is a run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        following = [*args[1:], ""]
        args = [
            "--sglang=latest" if arg == "--sglang" and after and Path(after).is_dir() else arg
            for arg, after in zip(args, following, strict=True)
        ]
        return super().parse_args(ctx, args)


def _version(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    from bench_client.report.sglang_block import LATEST, form_of

    if value is None or value == "latest":
        return value and LATEST
    try:
        form_of(value)
    except ValueError as error:
        raise click.BadParameter(f"there is no folder {value}, and {error}") from error
    return value


_forms = options(
    click.option("--html", is_flag=True, help="One self-contained page."),
    click.option("--markdown", is_flag=True, help="GitHub tables."),
    click.option("--json", is_flag=True, help="The summaries."),
    click.option(
        "--sglang",
        metavar="[VERSION]",
        is_flag=False,
        flag_value="latest",
        callback=_version,
        help="As that version of sglang.bench_serving prints it.",
    ),
    click.option("--strict", is_flag=True, help="With --sglang: nothing of our own behind it."),
    click.option(
        "--sglang-jsonl",
        type=click.Path(path_type=Path),
        help="Append each run to FILE as sglang.bench_serving does (with --sglang: that version).",
    ),
    click.option(
        "--vllm-json",
        type=click.Path(path_type=Path),
        help="Write the run to FILE as vllm bench serve does.",
    ),
)


@click.command(cls=_Report)
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@_forms
def report(runs: tuple[Path, ...], **given: Any) -> int:
    """Report on RUNS, results folders; the first is the baseline of the comparison."""
    from bench_client.run.fold import fold

    form = _only_form(given)
    found = [fold(path) for path in runs]
    if given["sglang"]:
        _print_blocks(found, given["sglang"], strict=given["strict"])
    if given["sglang_jsonl"] or given["vllm_json"]:
        _write_foreign(found, given)
    if not _foreign(given):
        _print(found, form)
    return 0


def _foreign(given: Mapping[str, Any]) -> list[str]:
    """The options given that speak another tool's language."""
    return [
        f"--{name.replace('_', '-')}"
        for name in ("sglang", "sglang_jsonl", "vllm_json")
        if given[name]
    ]


def _only_form(given: Mapping[str, Any]) -> str | None:
    """The form to print in; UsageError for two, or for one beside another tool's."""
    if given["strict"] and not given["sglang"]:
        raise click.UsageError("--strict goes with --sglang")
    forms, foreign = [name for name in _FORMS if given[name]], _foreign(given)
    asked = [*(f"--{name}" for name in forms), *foreign]
    if forms and len(asked) > 1:
        raise click.UsageError(
            f"{asked[0]} does not go with {', '.join(asked[1:])}: report once for each"
        )
    return forms[0] if forms else None


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
    from bench_client.report.sglang_block import sglang_block

    for run, summary in found:
        click.echo(sglang_block(run, summary, version, strict=strict), nl=False)


def _write_foreign(found: Sequence[Any], given: Mapping[str, Any]) -> None:
    from bench_client.cli.errors import ArgumentError
    from bench_client.report.sglang_block import LATEST
    from bench_client.report.sglang_jsonl import sglang_jsonl
    from bench_client.report.vllm_json import vllm_json

    jsonl, vllm, version = (given[name] for name in ("sglang_jsonl", "vllm_json", "sglang"))
    version = version or LATEST
    if vllm and len(found) > 1:
        raise click.UsageError("--vllm-json writes one run: give one")
    try:
        if jsonl:
            with jsonl.open("a", encoding="utf-8") as file:
                lines = (sglang_jsonl(run, summary, version) for run, summary in found)
                file.writelines(map(_line, lines))
        if vllm:
            vllm.write_text(_line(vllm_json(*found[0])), encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"cannot write {error.filename}: {error.strerror}") from error


def _line(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"
