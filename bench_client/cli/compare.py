"""`bench-client compare`: two or more runs, the first the baseline, and gates on the difference."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from bench_client.measure.gate import GateResult
    from bench_client.report.arms import Report


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
@click.option("--json", "form", flag_value="json", help="Comparisons and gates as one object.")
def compare(runs: tuple[Path, ...], gates: tuple[str, ...], form: str | None) -> int:
    """Compare RUNS, results folders, with the first of them."""
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
    figures = [gate.figure for gate in asked]
    comparisons = [compared(found[0][0], other, percentiles=figures) for other, _ in found[1:]]
    made = make_report(found, comparisons)
    verdicts = [
        (arm.name, evaluate(gate, comparison)) for arm, comparison in made.pairs() for gate in asked
    ]
    if form == "json":
        baseline = made.arms[0].name
        print_json(made, gates=[_gate(baseline, name, verdict) for name, verdict in verdicts])
    else:
        if form == "markdown":
            click.echo(markdown.report(made))
        else:
            print_comparison(made)
        for name, verdict in verdicts:
            click.echo(f"{name}: {verdict.sentence}" if len(runs) > 2 else verdict.sentence)
    return _exit_code(made, [verdict for _, verdict in verdicts])


def _gate(baseline: str, other: str, found: "GateResult") -> dict[str, Any]:
    from bench_client.measure.gate import WORDS

    return {
        "expression": found.gate.text,
        "baseline": baseline,
        "other": other,
        "verdict": WORDS[found.outcome],
        "ratio": found.ratio,
        "ci95": found.ci95,
        "sentence": found.sentence,
    }


def _exit_code(report: "Report", verdicts: Sequence["GateResult"]) -> int:
    """Gates are of valid runs: where one is not, say why before failing."""
    from bench_client.cli.errors import INVALID
    from bench_client.report.sentences import decisive

    invalid = [arm for arm in report.arms if verdicts and arm.summary.verdict == "invalid"]
    for arm in invalid:
        click.echo(
            f"bench-client: {arm.name} is invalid, so its gates do not count (exit {INVALID}): "
            f"{decisive(arm)}",
            err=True,
        )
    failed = any(verdict.stops for verdict in verdicts)
    return INVALID if failed or invalid else 0
