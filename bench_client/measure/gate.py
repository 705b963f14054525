"""A bar that a comparison must clear, such as `tps_decode >= -3%`. See docs/method.md, "Gates"."""

import operator
import re
from typing import Literal

from msgspec import Struct

from bench_client.measure.figures import RATIOS, Comparison, Interval, Ratio
from bench_client.measure.intervals import BOOTSTRAP_UNITS, FEWEST_UNITS
from bench_client.measure.percentiles import NAMES, split_name
from bench_client.measure.stats import PERCENTILE_NEEDS

Outcome = Literal["pass", "fail", "cant_tell"]

WORDS: dict[Outcome, str] = {"pass": "passed", "fail": "failed", "cant_tell": "can't tell"}
OPERATORS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}

# As typed in a document or pasted from one.
_TYPED = str.maketrans({"≥": ">=", "≤": "<=", "−": "-", "–": "-", "％": "%", "＞": ">", "＜": "<"})
# As summary.json nests them.
_NESTED = ("throughput.", "speculation.", "telemetry.gpu.energy.")
_RENAMED = {"tps_e2e.pooled": "tps_e2e_pooled"}
# A bar beyond is a value taken for a ratio: `ttft_ms <= 500` would let everything through.
RATIOS_OF_SENSE = (0.1, 10.0)

_EXPRESSION = re.compile(
    r"\s*([\w.]+)\s*(>=|<=|>|<)\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+))\s*(%?)\s*", re.ASCII
)


class GateError(ValueError):
    """An expression that is no gate; the message says what one looks like."""


class Gate(Struct, frozen=True):
    """`figure operator bar`: the bar is a ratio, other over baseline (-3% is 0.97)."""

    figure: str
    operator: str
    bar: float
    text: str


class GateResult(Struct, frozen=True):
    """What became of a gate, in one sentence, and the ratio that decided; null is unknown.

    `unlike`: the runs may not be compared at all. Such a gate fails a check as a failed one does.
    """

    gate: Gate
    outcome: Outcome
    sentence: str
    ratio: float | None = None
    ci95: Interval | None = None
    unlike: bool = False

    @property
    def stops(self) -> bool:
        """Whether a check that holds this gate must fail."""
        return self.outcome == "fail" or self.unlike


def parse_gate(text: str) -> Gate:
    """`tps_decode >= -3%` (change against the baseline) or `tps_decode >= 0.97` (ratio).

    The figure may name a percentile: `ttft_ms.p99 <= 5%`.

    Raises:
        GateError: not of that form, or an unknown figure.
    """
    match = _EXPRESSION.fullmatch(text.translate(_TYPED))
    if match is None:
        raise GateError(
            f"{text!r} is no gate: write FIGURE >=|<=|>|< CHANGE% or RATIO, "
            "such as 'tps_decode >= -3%' or 'ttft_ms <= 1.05'"
        )
    figure, sign, number, percent = match.groups()
    figure = _flat(figure)
    if figure not in RATIOS and figure not in NAMES:
        raise GateError(_unknown(figure))
    bar = 1 + float(number) / 100 if percent else float(number)
    low, high = RATIOS_OF_SENSE
    if bar <= 0 or not (percent or low <= bar <= high):
        raise GateError(
            f"{text!r} asks for {bar:g} times the baseline: a gate is relative to it, a change "
            "such as -3% or a ratio such as 0.97"
        )
    return Gate(figure, sign, bar, " ".join(text.split()))


def _flat(figure: str) -> str:
    """`throughput.output_tok_per_s` and `ttft_ms.mean` of summary.json -> the figure of a ratio."""
    for nest in _NESTED:
        figure = figure.removeprefix(nest)
    return _RENAMED.get(figure, figure.removesuffix(".mean"))


def evaluate(gate: Gate, comparison: Comparison) -> GateResult:
    """Pass or fail only where the whole 95% interval lies on one side of the bar."""
    if comparison.refused:
        sentence = f"can't tell {gate.text}: {comparison.refused}"
        return GateResult(gate, "cant_tell", sentence, unlike=True)
    ratio = comparison.ratios.get(gate.figure)
    if ratio is None or ratio.ratio is None:
        sentence = f"can't tell {gate.text}: {_no_ratio(gate.figure, comparison)}"
        return GateResult(gate, "cant_tell", sentence)
    if ratio.ci95 is None:
        why = f"{ratio.ratio:.3f} without an interval: {_no_interval(ratio)}"
        return GateResult(gate, "cant_tell", f"can't tell {gate.text}: {why}", ratio.ratio)
    outcome = judge(gate, ratio.ci95)
    word = WORDS[outcome]
    said = f"{ratio.ratio - 1:+.1%}, 95% interval {_changes(ratio.ci95)}"
    hint = "; more prompts or repeats narrow it" if outcome == "cant_tell" else ""
    sentence = f"{word} {gate.text}: {said}{hint}"
    return GateResult(gate, outcome, sentence, ratio.ratio, ratio.ci95)


def _no_ratio(figure: str, comparison: Comparison) -> str:
    ratio = comparison.ratios.get(figure)
    needs = PERCENTILE_NEEDS.get(split_name(figure)[1], 0)
    if ratio is not None and min(ratio.n) < needs:
        values = " and ".join(map(str, ratio.n))
        return f"{split_name(figure)[1]} needs {needs} values of each run, there are {values}"
    if only := comparison.one_sided.get(figure):
        return f"{figure} is known of {only} only"
    return f"{figure} is not known of both runs"


def _no_interval(ratio: Ratio) -> str:
    alone = ratio.n == (1, 1) and not ratio.paired
    if alone and ratio.figure in ("accept_length", "step_ms"):
        return "it is one value a run, as the verify steps of single requests are not known"
    if alone:
        return (
            "it is one value a run, which says nothing of how it varies; run with --repeat "
            f"{FEWEST_UNITS} or gate on a figure that each request has, such as tps_e2e"
        )
    least = BOOTSTRAP_UNITS.start if split_name(ratio.figure)[1] else FEWEST_UNITS
    return f"use at least {least} prompts, or one with --repeat {least}"


def _unknown(figure: str) -> str:
    percentiles = ", ".join(PERCENTILE_NEEDS)
    return (
        f"{figure!r} is no figure of a gate; these are: {', '.join(RATIOS)}, and of single "
        f"requests or tokens a percentile, such as ttft_ms.p99 ({percentiles})"
    )


def _changes(ci95: Interval) -> str:
    return f"{ci95[0] - 1:+.1%} to {ci95[1] - 1:+.1%}"


def judge(gate: Gate, ci95: Interval) -> Outcome:
    """By the interval's two ends: both clear the bar, neither does, or it straddles."""
    clears = OPERATORS[gate.operator]
    cleared = [clears(end, gate.bar) for end in ci95]
    if all(cleared):
        return "pass"
    return "cant_tell" if any(cleared) else "fail"
