"""Gates: what parses, and when one passes, fails or cannot tell."""

from typing import Any

import pytest

from bench_client.measure.compare import compare
from bench_client.measure.figures import RATIOS, Comparison, Interval, Ratio
from bench_client.measure.gate import GateError, evaluate, parse_gate
from bench_client.records import Load

from .arms import arm, speculative
from .runs import answer, imported, run


def comparison(ci95: Interval | None, refused: str | None = None, **ratio: Any) -> Comparison:
    found = {
        "figure": "tps_decode",
        "ratio": 0.96,
        "ci95": ci95,
        "paired": True,
        "n": (11, 11),
        "baseline_mean": 100.0,
        "other_mean": 96.0,
    }
    return Comparison(
        baseline="a",
        other="b",
        paired=True,
        unpaired_reason=None,
        refused=refused,
        ratios={"tps_decode": Ratio(**{**found, **ratio})},
        why=None,
        lossless=None,
    )


@pytest.mark.parametrize(
    ("text", "figure", "operator", "bar"),
    [
        ("tps_decode >= -3%", "tps_decode", ">=", 0.97),
        ("  ttft_ms<=+5.5 % ", "ttft_ms", "<=", 1.055),
        ("accept_length > 1.2", "accept_length", ">", 1.2),
        ("itl_ms < .9", "itl_ms", "<", 0.9),
        ("tps_e2e >= 100%", "tps_e2e", ">=", 2.0),
        ("ttft_ms.p99 <= 5%", "ttft_ms.p99", "<=", 1.05),
    ],
)
def test_what_parses(text: str, figure: str, operator: str, bar: float) -> None:
    gate = parse_gate(text)
    assert (gate.figure, gate.operator) == (figure, operator)
    assert gate.bar == pytest.approx(bar)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no gate: write FIGURE"),
        ("tps_decode", "is no gate"),
        ("tps_decode == 1", "is no gate"),
        ("tps_decode >= fast", "is no gate"),
        ("tps_decode >= -3% and more", "is no gate"),
        ("tps_decode >= ٣", "is no gate"),
        ("speed >= 1", "'speed' is no figure of a gate; these are: tps_decode, "),
        ("tps_decode >= -3", "asks for -3 times the baseline: a gate is relative to it"),
        ("tps_decode >= -100%", "asks for 0 times the baseline"),
        ("ttft_ms <= 500", "asks for 500 times the baseline"),
        ("ttft_ms.p50 <= 10.5", "asks for 10.5 times the baseline"),
        ("accept_length >= 0.05", "a change such as -3% or a ratio such as 0.97"),
        ("ttft_ms.p42 <= 1", "'ttft_ms.p42' is no figure of a gate"),
        ("output_tok_per_s.p99 >= 1", "a percentile, such as ttft_ms.p99 (p50, p90, p95, p99)"),
    ],
)
def test_what_does_not(text: str, said: str) -> None:
    with pytest.raises(GateError) as caught:
        parse_gate(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "figure", "bar"),
    [
        ("throughput.output_tok_per_s ≥ −3%", "output_tok_per_s", 0.97),
        ("throughput.request_per_s >= 1", "request_per_s", 1),
        ("tps_e2e.pooled >= 0.97", "tps_e2e_pooled", 0.97),
        ("speculation.accept_length ≥ –2％", "accept_length", 0.98),
        ("ttft_ms.mean ≤ 5%", "ttft_ms", 1.05),
        ("telemetry.gpu.energy.j_per_output_token <= 5%", "j_per_output_token", 1.05),
        ("tps_decode >= 1000%", "tps_decode", 11),
    ],
)
def test_names_of_the_summary_and_signs_of_a_document(text: str, figure: str, bar: float) -> None:
    gate = parse_gate(text)
    assert (gate.figure, gate.bar) == (figure, pytest.approx(bar))


def test_every_figure_of_a_run_can_be_told() -> None:
    """Three repeats of an open loop; accept length and energy have tests of their own."""
    load = {"load": Load(kind="open", request_rate=1.0), "repeats": 3}
    sides = [
        run(
            [
                answer(
                    i,
                    gaps=(20 * factor,) * 50,
                    sent=9000 * r + 100 * i + 1,
                    repeat=r,
                    scheduled_ns=(9000 * r + 100 * i) * 10**6,
                )
                for r in range(3)
                for i in range(10)
            ],
            plan=load,
        )
        for factor in (1, 0.5)
    ]
    known = compare(*sides).ratios
    unknown = {name for name in RATIOS if not (name in known and known[name].ci95)}
    assert unknown <= {"accept_length", "j_per_output_token"}


def test_a_figure_that_was_lost_is_named() -> None:
    found = compare(speculative(), arm())
    result = evaluate(parse_gate("accept_length >= -3%"), found)
    assert result.outcome == "cant_tell"
    assert "accept_length is known of the baseline only" in result.sentence
    assert found.one_sided["accept_length"] == "the baseline"


def test_a_figure_of_requests_and_one_that_was_printed_are_both_known() -> None:
    theirs = imported(figures={"ttft_ms.mean": 60.0})
    found = compare(arm(), theirs)
    assert "ttft_ms" not in found.one_sided
    result = evaluate(parse_gate("ttft_ms <= 5%"), found)
    assert "known of" not in result.sentence
    load = {"load": Load(kind="open", request_rate=1.0)}
    apart = compare(arm(), arm(plan=load)).one_sided
    assert apart["ttft_from_schedule_ms"] == "the other run"


@pytest.mark.parametrize(
    ("text", "ci95", "outcome"),
    [
        ("tps_decode >= -3%", (0.98, 1.02), "pass"),
        ("tps_decode >= -3%", (0.90, 0.96), "fail"),
        ("tps_decode >= -3%", (0.95, 0.99), "cant_tell"),
        ("tps_decode >= -3%", (0.90, 0.98), "cant_tell"),
        ("tps_decode >= 1", (1.0, 1.0), "pass"),
        ("tps_decode > 1", (1.0, 1.0), "fail"),
        ("tps_decode <= 1", (1.0, 1.0), "pass"),
        ("tps_decode < 1", (0.90, 0.99), "pass"),
        ("tps_decode < 1", (1.01, 1.20), "fail"),
        ("tps_decode <= 1.1", (1.05, 1.20), "cant_tell"),
    ],
)
def test_the_interval_decides(text: str, ci95: Interval, outcome: str) -> None:
    assert evaluate(parse_gate(text), comparison(ci95)).outcome == outcome


def test_what_is_said() -> None:
    gate = parse_gate("tps_decode >= -3%")
    failed = evaluate(gate, comparison((0.94, 0.965)))
    assert failed.sentence == "failed tps_decode >= -3%: -4.0%, 95% interval -6.0% to -3.5%"
    straddling = evaluate(gate, comparison((0.94, 0.98)))
    assert straddling.sentence.startswith("can't tell tps_decode >= -3%: -4.0%")


@pytest.mark.parametrize(
    ("text", "found", "said"),
    [
        ("tps_decode >= 1", comparison(None), "0.960 without an interval: use at least 3 prompts"),
        (
            "tps_decode >= 1",
            comparison(None, n=(1, 1), paired=False),
            "it is one value a run, which says nothing of how it varies",
        ),
        ("tps_decode >= 1", comparison(None, ratio=None), "not known of both runs"),
        ("ttft_ms <= 1", comparison((1, 1)), "ttft_ms is not known of both runs"),
        ("tps_decode >= 1", comparison((2, 3), refused="the models differ"), "the models differ"),
    ],
)
def test_without_an_interval_it_cannot_tell(text: str, found: Comparison, said: str) -> None:
    result = evaluate(parse_gate(text), found)
    assert result.outcome == "cant_tell"
    assert said in result.sentence


def test_runs_that_may_not_be_compared_stop_a_check() -> None:
    gate = parse_gate("tps_decode >= 1")
    refused = evaluate(gate, comparison((2, 3), refused="the models differ"))
    assert (refused.outcome, refused.unlike, refused.stops) == ("cant_tell", True, True)
    assert evaluate(gate, comparison((0.9, 0.95))).stops
    assert not evaluate(gate, comparison((0.9, 1.1))).stops
    assert not evaluate(gate, comparison((1.1, 1.2))).stops


def test_throughput_of_a_closed_loop_can_be_told() -> None:
    gate = parse_gate("output_tok_per_s >= 50%")
    result = evaluate(gate, compare(arm(), arm(0.5)))
    assert result.outcome == "pass"
    assert result.ci95 is not None
    assert result.ci95[0] < result.ci95[1] or result.ratio == pytest.approx(result.ci95[0])
    slower = evaluate(gate, compare(arm(), arm(0.9)))
    assert slower.outcome == "fail"


def test_throughput_of_an_open_loop_cannot() -> None:
    load = {"load": Load(kind="open", request_rate=1.0)}
    found = compare(arm(plan=load, duration_ns=10**10), arm(0.5, plan=load, duration_ns=10**10))
    result = evaluate(parse_gate("output_tok_per_s >= 1"), found)
    assert result.outcome == "cant_tell"
    assert "it is one value a run" in result.sentence


def test_a_percentile_is_told_where_there_are_values_enough() -> None:
    gates = [parse_gate(text) for text in ("itl_ms.p99 <= -40%", "ttft_ms.p99 <= 5%")]
    found = compare(arm(), arm(0.5), percentiles=[gate.figure for gate in gates])
    inside, few = (evaluate(gate, found) for gate in gates)
    assert inside.outcome == "pass"
    assert few.outcome == "cant_tell"
    assert "p99 needs 100 values of each run, there are 10 and 10" in few.sentence
    medians = compare(arm(prompts=range(5)), arm(0.5, range(5)), percentiles=["ttft_ms.p50"])
    fewer = evaluate(parse_gate("ttft_ms.p50 <= 5%"), medians)
    assert "use at least 8 prompts" in fewer.sentence


def test_percentiles_of_another_tool() -> None:
    printed = [imported(figures={"ttft_ms.p99": value}) for value in (50.0, 60.0)]
    result = evaluate(
        parse_gate("ttft_ms.p99 <= 1"), compare(*printed, percentiles=["ttft_ms.p99"])
    )
    assert result.ratio == pytest.approx(1.2)
    assert "it is one value a run" in result.sentence
