"""`bench-client report`: figures from saved records, as often as wanted."""

from pathlib import Path

import click


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--html", "form", flag_value="html", help="One self-contained page.")
@click.option("--markdown", "form", flag_value="markdown", help="GitHub tables.")
@click.option("--json", "form", flag_value="json", help="The summaries.")
def report(runs: tuple[Path, ...], form: str | None) -> int:
    """Report on RUNS, results folders; the first is the baseline of the comparison."""
    from bench_client.cli.show import print_json, print_report
    from bench_client.measure.compare import compare
    from bench_client.report import html, markdown
    from bench_client.report.arms import make_report
    from bench_client.run.fold import fold

    found = [fold(path) for path in runs]
    comparisons = [compare(found[0][0], other) for other, _ in found[1:]]
    made = make_report(found, comparisons)
    if form == "json":
        print_json(made)
    elif form is None:
        print_report(made)
    else:
        click.echo(html.report(made) if form == "html" else markdown.report(made))
    return 0
