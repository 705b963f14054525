"""What the charts show: runs and comparisons to the points of `charts`. Empty where unknown."""

from collections.abc import Iterator
from itertools import accumulate

from bench_client.measure.figures import Comparison
from bench_client.records import RequestRecord, Run
from bench_client.report import charts
from bench_client.report.arms import Arm, Report, points
from bench_client.report.text import number, times

MAX_POINTS = 300


def panels(found: Report) -> Iterator[tuple[str, str]]:
    """(title, SVG) of every chart that the data can fill."""
    drawn = [
        ("Tokens per second by request", _speeds(found)),
        ("Tokens over time", _timeline(found)),
    ]
    if found.comparisons:
        drawn += [
            (f"Accept length and speedup: {arm.name}", _speedups(arm, against, i))
            for i, (arm, against) in enumerate(found.pairs(), 1)
        ]
    return ((title, svg) for title, svg in drawn if svg)


def _speeds(found: Report) -> str:
    """Decode speed where any arm has it by request, else end to end."""
    decode = any(point.tps_decode is not None for arm in found.arms for point in points(arm))
    strips = [strip for arm in found.arms if (strip := _strip(arm, decode)).values]
    return charts.strips(strips, f"TPS {'decode' if decode else 'e2e'} (tok/s)") if strips else ""


def _strip(arm: Arm, decode: bool) -> charts.Strip:
    rates = [(p.name, p.tps_decode if decode else p.tps_e2e) for p in points(arm)]
    dots = [(rate, f"{name}: {number(rate, 2)} tok/s") for name, rate in rates if rate is not None]
    stat = arm.summary.tps_decode if decode else arm.summary.tps_e2e
    return charts.Strip(arm.name, dots, stat.mean, stat.ci95)


def _timeline(found: Report) -> str:
    lines = [charts.Curve(arm.name, cumulative_tokens(arm.run)) for arm in found.arms]
    lines = [line for line in lines if line.points]
    return charts.curves(lines, "seconds since the first request", "output tokens") if lines else ""


def cumulative_tokens(run: Run) -> list[tuple[float, int]]:
    """(seconds since the first request, output tokens so far), at most about `MAX_POINTS`.

    A request whose events do not all tell their tokens counts at its last token.
    """
    arrivals = sorted(arrival for record in run.records for arrival in _arrivals(record))
    if not arrivals:
        return []
    began = min(r.scheduled_ns if r.sent_ns is None else r.sent_ns for r in run.records)
    sums = accumulate(tokens for _, tokens in arrivals)
    curve = [((at - began) / 1e9, total) for (at, _), total in zip(arrivals, sums, strict=True)]
    stride = -(-len(curve) // MAX_POINTS)
    return curve[::-stride][::-1]


def _arrivals(record: RequestRecord) -> list[tuple[int, int]]:
    known = [tokens for tokens in record.events.tokens if tokens is not None]
    if known and len(known) == len(record.events.at_ns):
        return list(zip(record.events.at_ns, known, strict=True))
    if record.output_tokens is None or record.last_token_ns is None:
        return []
    return [(record.last_token_ns, record.output_tokens)]


def _speedups(arm: Arm, against: Comparison, colour: int) -> str:
    if against.why is None or against.refused:
        return ""
    if against.paired:
        dots = [
            (row.accept_length, row.speedup, row.prompt_id or f"prompt {row.prompt_index}")
            for row in against.rows
        ]
        label = "speedup of the prompt"
    else:
        dots, label = _over_the_mean(arm, against), "speedup over the baseline's mean"
    known = [
        (length, speedup, f"{name}: accept length {number(length, 2)}, {times(speedup)}")
        for length, speedup, name in dots
        if length is not None and speedup is not None
    ]
    return charts.speedups(known, against.why.cost, label, colour) if known else ""


def _over_the_mean(arm: Arm, against: Comparison) -> list[tuple[float | None, float | None, str]]:
    """Where prompts have no partner, each against the baseline's mean decode speed."""
    ratio = against.ratios.get("tps_decode")
    base = ratio.baseline_mean if ratio else None
    if not base:
        return []
    return [
        (p.accept_length, None if p.tps_decode is None else p.tps_decode / base, p.name)
        for p in points(arm)
    ]
