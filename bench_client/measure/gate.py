"""A bar that a comparison must clear, such as `tps_decode >= -3%`. See docs/method.md, "Gates"."""

import operator
import re
from typing import Literal

from msgspec import Struct

from bench_client.measure.compare import RATIOS
from bench_client.measure.figures import Comparison, Interval

Outcome = Literal["pass", "fail", "cant_tell"]

OPERATORS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}

_EXPRESSION = re.compile(
    r"\s*(\w+)\s*(>=|<=|>|<)\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+))\s*(%?)\s*", re.ASCII
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
    """What became of a gate, in one sentence."""

    gate: Gate
    outcome: Outcome
    sentence: str


def parse_gate(text: str) -> Gate:
    """`tps_decode >= -3%` (change against the baseline) or `tps_decode >= 0.97` (ratio).

    Raises:
        GateError: not of that form, or an unknown figure.
    """
    match = _EXPRESSION.fullmatch(text)
    if match is None:
        raise GateError(
            f"{text!r} is no gate: write FIGURE >=|<=|>|< CHANGE% or RATIO, "
            "such as 'tps_decode >= -3%' or 'ttft_ms <= 1.05'"
        )
    figure, sign, number, percent = match.groups()
    if figure not in RATIOS:
        raise GateError(f"{figure!r} is no figure of a gate; these are: {', '.join(RATIOS)}")
    bar = 1 + float(number) / 100 if percent else float(number)
    if bar <= 0:
        hint = "" if percent else "; add % for a change"
        raise GateError(f"{text!r} asks for a ratio of {bar:g}, but ratios are above 0{hint}")
    return Gate(figure, sign, bar, " ".join(text.split()))


def evaluate(gate: Gate, comparison: Comparison) -> GateResult:
    """Pass or fail only where the whole 95% interval lies on one side of the bar."""
    if comparison.refused:
        return GateResult(gate, "cant_tell", f"can't tell {gate.text}: {comparison.refused}")
    ratio = comparison.ratios.get(gate.figure)
    if ratio is None or ratio.ratio is None:
        why = f"{gate.figure} is not known of both runs"
        return GateResult(gate, "cant_tell", f"can't tell {gate.text}: {why}")
    if ratio.ci95 is None:
        why = f"{ratio.ratio:.3f} without an interval; use at least 3 prompts"
        return GateResult(gate, "cant_tell", f"can't tell {gate.text}: {why}")
    outcome = judge(gate, ratio.ci95)
    word = {"pass": "passed", "fail": "failed", "cant_tell": "can't tell"}[outcome]
    said = f"{ratio.ratio - 1:+.1%}, 95% interval {_changes(ratio.ci95)}"
    hint = "; more prompts or repeats narrow it" if outcome == "cant_tell" else ""
    return GateResult(gate, outcome, f"{word} {gate.text}: {said}{hint}")


def _changes(ci95: Interval) -> str:
    return f"{ci95[0] - 1:+.1%} to {ci95[1] - 1:+.1%}"


def judge(gate: Gate, ci95: Interval) -> Outcome:
    """By the interval's two ends: both clear the bar, neither does, or it straddles."""
    clears = OPERATORS[gate.operator]
    cleared = [clears(end, gate.bar) for end in ci95]
    if all(cleared):
        return "pass"
    return "cant_tell" if any(cleared) else "fail"
