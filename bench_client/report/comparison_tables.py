"""The tables of a comparison: arms side by side, and every figure of one pair."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from bench_client.measure.figures import Comparison, Ratio
from bench_client.report.arms import Arm, Report
from bench_client.report.tables import FIGURES, Column, Figure, Table
from bench_client.report.text import (
    UNKNOWN,
    column,
    count,
    interval,
    ms_decimals,
    number,
    percent,
    ratio_with_interval,
    tps_decimals,
    two_decimals,
)

COST_NOTE = (
    "Cost: time of a verify step over the baseline's step; an accept length above it is faster."
)
RATIOS = {
    figure.key: figure
    for figure in (
        *FIGURES,
        Figure("output_tokens", "output tokens", "", ms_decimals),
        Figure("output_tok_per_s", "output throughput", "tok/s", tps_decimals),
        Figure("j_per_output_token", "energy", "J/output token", ms_decimals),
    )
}


def comparison(report: Report) -> Table:
    """The arms as rows, the baseline first, every other with its speedup."""
    shown = _shown(report.arms)
    columns = (
        Column("arm", right=False),
        shown.speed,
        *(Column(f"{name}\nspeedup") for name in shown.speedups.values()),
        Column("TTFT", "ms"),
        Column("accept\nlength"),
        Column("step", "ms"),
        Column("cost =\nbreak-even"),
    )
    base = report.arms[0]
    base_step = next((c.why.base_step_ms for c in report.comparisons if c.why), None)
    base_step = base.summary.step_ms.mean if base_step is None else base_step
    first = (base, ["baseline" for _ in shown.speedups], base_step, "1.00")
    others = [
        (arm, [_speedup(c, figure) for figure in shown.speedups], _step_ms(arm, c), _cost(c))
        for arm, c in report.pairs()
    ]
    arms = [first, *others]
    ttft = column([arm.summary.ttft_ms.mean for arm, *_ in arms], ms_decimals)
    steps = column([step for *_, step, _ in arms], ms_decimals)
    rows = tuple(
        (
            arm.name,
            shown.of(arm),
            *speedups,
            ttft[i],
            _accept(arm),
            steps[i],
            cost,
        )
        for i, (arm, speedups, _, cost) in enumerate(arms)
    )
    bad = frozenset(i for i, (arm, *_) in enumerate(arms) if arm.summary.verdict == "invalid")
    return Table(columns=columns, rows=rows, bad=bad)


class _Shown(NamedTuple):
    """The speed that a comparison shows of each arm, and the names of its speedups by figure."""

    speed: Column
    of: Callable[[Arm], str]
    speedups: Mapping[str, str]


def _shown(arms: Sequence[Arm]) -> _Shown:
    """The whole run's throughput tells how loaded the server was too: where no speed is known."""
    both = {"tps_decode": "decode", "tps_e2e": "e2e"}
    if any(arm.summary.tps_decode.mean is not None for arm in arms):
        return _Shown(Column("decode", "tok/s"), lambda arm: _speed(arm, "e2e "), both)
    throughputs = [arm.summary.throughput.output_tok_per_s for arm in arms]
    if any(arm.summary.tps_e2e.mean is not None for arm in arms) or not any(throughputs):
        return _Shown(Column("e2e", "tok/s"), _speed, both)
    only = {"output_tok_per_s": "throughput"}
    return _Shown(Column("output\nthroughput", "tok/s"), _throughput, only)


def _speed(arm: Arm, mark: str = "") -> str:
    """Decode speed; end to end, and marked, for an arm that lacks it beside others."""
    decode, e2e = arm.summary.tps_decode, arm.summary.tps_e2e
    stat, mark = (e2e, mark) if decode.mean is None else (decode, "")
    if stat.mean is None:
        return UNKNOWN
    places = tps_decimals(stat.mean)
    return _over(f"{mark}{number(stat.mean, places)}", interval(stat.ci95, places))


def _throughput(arm: Arm) -> str:
    rate = arm.summary.throughput.output_tok_per_s
    return number(rate, tps_decimals(rate or 0))


def _speedup(found: Comparison, figure: str) -> str:
    if found.refused:
        return "refused"
    ratio = found.ratios.get(figure)
    return UNKNOWN if ratio is None else _over(*ratio_with_interval(ratio.ratio, ratio.ci95))


def _over(figure: str, bounds: str) -> str:
    return figure if bounds == UNKNOWN else f"{figure}\n{bounds}"


def _accept(arm: Arm) -> str:
    speculation = arm.summary.speculation
    return number(speculation.accept_length if speculation else None, 2)


def _step_ms(arm: Arm, found: Comparison) -> float | None:
    if found.why:
        return found.why.step_ms
    speculation = arm.summary.speculation
    if speculation and speculation.step_ms is not None:
        return speculation.step_ms
    return arm.summary.step_ms.mean


def _cost(found: Comparison) -> str:
    return number(found.why.cost, 2) if found.why and not found.refused else UNKNOWN


def ratios(found: Comparison) -> Table:
    """Every figure of a comparison: both means, their ratio, what it could have told, and the
    repeats that would tell 2%.
    """
    return Table(
        columns=(
            Column("", right=False),
            Column("", right=False),
            *map(Column, ("n", "baseline", "this arm", "ratio", "95% interval", "detectable")),
            Column("repeats\nfor 2%"),
        ),
        rows=tuple(_ratio(_figure(key), ratio) for key, ratio in found.ratios.items()),
    )


def _figure(key: str) -> Figure:
    """Of a percentile (`ttft_ms.p99`) its figure's, named with it."""
    name, _, percentile = key.partition(".")
    figure = RATIOS.get(name) or Figure(name, name.replace("_", " "), "", two_decimals)
    return figure._replace(title=f"{figure.title} {percentile}".rstrip())


def _ratio(figure: Figure, ratio: Ratio) -> tuple[str, ...]:
    means = column((ratio.baseline_mean, ratio.other_mean), figure.decimals)
    n = str(ratio.n[0]) if ratio.paired else f"{ratio.n[0]}, {ratio.n[1]}"
    exact = ratio.ci95 is not None and ratio.ci95[0] == ratio.ci95[1]
    mdd = UNKNOWN if ratio.mdd is None or exact else percent(ratio.mdd)
    shown = ratio_with_interval(ratio.ratio, ratio.ci95)
    return figure.title, figure.unit, n, *means, *shown, mdd, count(ratio.recommended_repeats)
