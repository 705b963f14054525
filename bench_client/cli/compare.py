"""`bench-client compare`: two or more runs, the first the baseline, and gates on the difference."""

from pathlib import Path

import click


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--gate",
    "gates",
    multiple=True,
    metavar="EXPR",
    help="Such as 'tps_decode >= -3%': fails where the interval says that it does not hold.",
)
@click.option("--markdown", "form", flag_value="markdown", help="GitHub tables.")
@click.option("--json", "form", flag_value="json", help="The comparisons as JSON.")
def compare(runs: tuple[Path, ...], gates: tuple[str, ...], form: str | None) -> int:
    """Compare RUNS, results folders, with the first of them."""
    from bench_client.cli.errors import INVALID
    from bench_client.cli.show import print_comparison, print_json
    from bench_client.measure.compare import compare as compared
    from bench_client.measure.gate import evaluate, parse_gate
    from bench_client.report import markdown
    from bench_client.report.arms import make_report
    from bench_client.run.fold import fold

    if len(runs) < 2:
        raise click.UsageError("give two runs or more, the first is the baseline")
    asked = [parse_gate(gate) for gate in gates]
    found = [fold(path) for path in runs]
    comparisons = [compared(found[0][0], other) for other, _ in found[1:]]
    made = make_report(found, comparisons)
    if form == "json":
        print_json(made)
    elif form == "markdown":
        click.echo(markdown.report(made))
    else:
        print_comparison(made)
    verdicts = [evaluate(gate, comparison) for comparison in comparisons for gate in asked]
    for verdict in verdicts:
        click.echo(verdict.sentence)
    gated = any(verdict.outcome == "fail" for verdict in verdicts)
    invalid = bool(asked) and any(summary.verdict == "invalid" for _, summary in found)
    return INVALID if gated or invalid else 0
