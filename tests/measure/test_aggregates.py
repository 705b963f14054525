"""Figures of a whole run: an interval where repeats are runs of their own, else none."""

from typing import Any

import pytest

from bench_client.measure.compare import compare
from bench_client.measure.figures import Ratio
from bench_client.measure.gate import evaluate, parse_gate
from bench_client.records import Load, Run
from tests.measure.runs import answer, run

BEGAN = 1_796_000_000 * 10**9
OPEN = Load(kind="open", request_rate=2.0)


def repeated(*seconds: float, watts: float = 300, apart: float = 100, **plan: Any) -> Run:
    """A repeat of 101 tokens in each of `seconds`, on a GPU that draws `watts`."""
    records = [
        answer(
            prompt,
            gaps=(took * 10 - 0.5,) * 100,
            sent=apart * 1e3 * repeat,
            repeat=repeat,
            id=f"p{prompt}-r{repeat}",
        )
        for repeat, took in enumerate(seconds)
        for prompt in range(3)
    ]
    end = round(apart * len(seconds)) + 20
    rows = [
        {
            "at_unix_ns": BEGAN + at * 10**9,
            "gpu": {"0": {"energy_j": 1e6 + watts * at, "power_w": watts, "server_processes": 1}},
        }
        for at in range(-1, end)
    ]
    return run(
        records,
        plan={"load": OPEN, "repeats": len(seconds), **plan},
        telemetry=tuple(rows),
        began_unix_ns=BEGAN,
    )


def ratio(figure: str, baseline: Run, other: Run) -> Ratio:
    return compare(baseline, other).ratios[figure]


def test_open_loop_throughput_of_repeats() -> None:
    """Each repeat of the other run takes half the time of the baseline's, within a few percent."""
    found = ratio("output_tok_per_s", repeated(10, 11, 12, 10), repeated(5, 5.6, 6, 4.9))
    assert found.ratio == pytest.approx(43 / 21.5, rel=1e-6)
    assert (found.n, found.paired) == ((4, 4), True)
    assert found.ci95 is not None
    assert 1.9 < found.ci95[0] < 2 < found.ci95[1] < 2.1
    assert found.recommended_repeats


def test_energy_of_repeats() -> None:
    sides = repeated(10, 11, 12), repeated(10, 11, 12, watts=270)
    found = ratio("j_per_output_token", *sides)
    assert found.baseline_mean == pytest.approx(300 * 33 / 909)
    assert found.ratio == pytest.approx(0.9)
    assert found.ci95 == (pytest.approx(0.9), pytest.approx(0.9))
    gate = evaluate(parse_gate("j_per_output_token <= -5%"), compare(*sides))
    assert (gate.outcome, gate.ci95) == ("pass", found.ci95)


def test_unlike_numbers_of_repeats_are_not_paired() -> None:
    found = ratio("output_tok_per_s", repeated(10, 11, 12), repeated(10, 11, 12, 11))
    assert (found.paired, found.n) == (False, (3, 4))
    assert found.ci95 is not None
    assert found.recommended_repeats is None


@pytest.mark.parametrize(
    "seconds", [(10, 11), (10, 11, 300)], ids=["too few", "the last covers all"]
)
def test_repeats_that_are_no_runs_have_no_interval(seconds: tuple[float, ...]) -> None:
    sides = repeated(*seconds, apart=100), repeated(*seconds, apart=5)
    found = ratio("output_tok_per_s", *sides)
    assert (found.n, found.ci95, found.paired) == ((1, 1), None, False)
    gate = evaluate(parse_gate("output_tok_per_s >= -3%"), compare(*sides))
    assert gate.outcome == "cant_tell"
    assert "run with --repeat 3" in gate.sentence
