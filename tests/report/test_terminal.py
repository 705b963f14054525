import io
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console, RenderableType

from bench_client.measure.figures import Comparison, Concurrency, Doubt, Repeats
from bench_client.records import Imported, Load
from bench_client.report import terminal
from bench_client.report.arms import Report, make_report

from . import building, samples

GOLDEN = Path(__file__).parent.parent / "fixtures" / "report"


def rendered(renderable: RenderableType, width: int = terminal.WIDTH) -> str:
    """What lands in a log file: no terminal, trailing blanks cut."""
    file = io.StringIO()
    Console(file=file, width=width, _environ={}).print(renderable)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


LENGTHS = (("en", 3.0), ("en", 5.0), ("zh", 1.5))


def compared(found: Comparison) -> Report:
    return make_report([samples.sglang(), samples.eagle3()], [found])


@pytest.mark.parametrize(
    ("name", "report"),
    [
        ("comparison", compared(samples.comparison())),
        ("failing", make_report([samples.failing()])),
        ("open_loop", make_report([samples.open_loop()])),
        ("imported", make_report([samples.imported()])),
    ],
)
def test_golden(name: str, report: Report) -> None:
    shown = rendered(terminal.report(report))
    assert shown == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    assert max(map(cell_len, shown.splitlines())) <= terminal.WIDTH
    assert "\x1b" not in shown


def test_colour_only_on_a_terminal() -> None:
    file = io.StringIO()
    console = Console(file=file, width=100, force_terminal=True, color_system="standard")
    console.print(terminal.arm(make_report([samples.failing()]).arms[0]))
    assert "\x1b[1;31m3 of 11 requests failed" in file.getvalue()


def test_failures_stand_on_the_first_line() -> None:
    shown = rendered(terminal.report(make_report([samples.failing()])))
    first = shown.splitlines()[0]
    assert "3 of 11 requests failed: stall 2, reset 1" in first
    assert first.endswith("invalid")


def test_failures_head_the_comparison() -> None:
    report = make_report([samples.sglang(), samples.failing()], [samples.comparison()])
    lines = rendered(terminal.comparison(report)).splitlines()
    assert lines[2].startswith("sglang-eagle3 is invalid: 3 of 11 requests failed")


def test_unsupported_figures_are_dashes() -> None:
    run, found = samples.eagle3()
    alone = replace(found, tps_decode=building.stat([80.28]), rows=found.rows[:1])
    shown = rendered(terminal.arm(make_report([(run, alone)]).arms[0]))
    line = next(line for line in shown.splitlines() if line.startswith("TPS decode"))
    assert line.split() == [
        "TPS",
        "decode",
        "tok/s",
        "1",
        "80.28",
        "-",
        "-",
        "80.28",
        "80.28",
        "80.28",
    ]


def test_a_refused_comparison_concludes_nothing() -> None:
    refused = replace(samples.comparison(), refused="the models differ: A and B", ratios={})
    shown = rendered(terminal.comparison(compared(refused)))
    assert "refused         the models differ: A and B" in shown
    assert shown.count("refused") == 3
    assert "faster than" not in shown
    assert "1.90" not in shown


def test_languages_are_measured_apart() -> None:
    ratios = {
        "en": building.ratio(2.12, (1.9, 2.3), (40.0, 84.8), None),
        "zh": building.ratio(0.8, (0.6, 1.1), (40.0, 32.0), None),
    }
    rows = tuple(building.pair_row(language, length) for language, length in LENGTHS)
    found = replace(samples.comparison(), by_language=ratios, rows=rows)
    shown = " ".join(rendered(terminal.comparison(compared(found))).split())
    said = "English prompts, 11: decoding 2.12x [1.90, 2.30], faster; accept length 4.00"
    assert f"{said} (break-even 1.90)" in shown
    assert "Chinese prompts, 11: decoding 0.80x [0.60, 1.10], no difference shown" in shown
    assert "no difference shown; accept length 1.50 (break-even 1.90)" in shown


@pytest.mark.parametrize(
    ("relative", "ci95", "steps", "told"),
    [
        (0.85, (0.8, 0.9), 50, True),
        (0.85, (0.8, 0.9), 49, False),  # one of several parts may look so
        (1.2, (1.1, 1.3), 900, True),
        (0.85, (0.7, 1.01), 900, False),  # may be chance
        (0.85, None, 900, False),
        (0.95, (0.94, 0.96), 900, False),  # of no consequence
    ],
)
def test_accept_length_along_the_answer_only_where_it_changes(
    relative: float, ci95: tuple[float, float] | None, steps: int, told: bool
) -> None:
    run, found = samples.eagle3()
    early, middle, late = samples.PARTS
    late = replace(late, relative=relative, relative_ci95=ci95, steps=steps)
    speculation = replace(samples.speculation(), by_answer_position=(early, middle, late))
    arm = make_report([(run, replace(found, speculation=speculation))]).arms[0]
    line = "along answer    4.12 at 0-31, 4.02 at 32-1023, 3.31 at 1024+ tokens"
    assert (line in rendered(terminal.arm(arm))) is told


def test_equal_values_are_said_to_be_equal() -> None:
    equal = building.ratio(1.0, (1.0, 1.0), (60.0, 60.0), 0.0)
    shown = rendered(
        terminal.comparison(compared(replace(samples.comparison(), ratios={"tps_decode": equal})))
    )
    assert "the same as sglang" in shown
    assert "0.0%" not in shown


def test_prompts_that_only_one_run_has_are_told() -> None:
    found = replace(samples.comparison(), paired=True, shared_prompts=(6, 12))
    shown = " ".join(rendered(terminal.comparison(compared(found))).split())
    assert "; 6 of 12 prompts are in both runs, the others are left out" in shown


def test_the_spread_of_repeats_is_told() -> None:
    arm = make_report([samples.sglang()]).arms[0]
    spread = Repeats(n=3, sd=1.0, relative_sd=0.021)
    shown = rendered(terminal.arm(replace(arm, summary=replace(arm.summary, repeats=spread))))
    assert "3, means of tps_decode differ by 2.1% (sd)" in shown


def test_unknown_concurrency_is_left_out() -> None:
    arm = make_report([samples.sglang()]).arms[0]
    unknown = Concurrency(mean=None, peak=None, decoding_mean=None)
    summary = replace(arm.summary, concurrency=unknown)
    shown = rendered(terminal.arm(replace(arm, summary=summary)))
    assert "concurrency mean" not in " ".join(shown.split())
    assert "concurrency     mean 1.00" in rendered(terminal.arm(arm))


def test_no_difference_is_said_so() -> None:
    equal = building.ratio(1.03, (0.98, 1.08), (60.0, 61.7), 0.07)
    shown = rendered(
        terminal.comparison(compared(replace(samples.comparison(), ratios={"tps_decode": equal})))
    )
    assert "decoding 1.03x [0.98, 1.08]: no difference from sglang shown" in shown
    assert "one of 7.0% would be, with 80% probability" in " ".join(shown.split())
    assert "faster than" not in shown


def test_no_interval_no_verdict() -> None:
    few = building.ratio(2.0, None, (40.0, 80.0), None)
    shown = rendered(
        terminal.comparison(compared(replace(samples.comparison(), ratios={"tps_decode": few})))
    )
    assert "decoding 2.00x the speed of sglang, too few values for an interval" in shown


def test_paired_comparison_counts_its_pairs() -> None:
    pair = replace(building.ratio(2.0, (1.9, 2.1), (40.0, 80.0), None), paired=True)
    paired = replace(samples.comparison(), paired=True, ratios={"tps_decode": pair})
    assert "pairing         paired by prompt, 11 pairs" in rendered(
        terminal.comparison(compared(paired))
    )


def test_markup_and_escapes_of_others_do_not_reach_the_terminal() -> None:
    run, found = samples.failing()
    odd = replace(found.rows[0], prompt_id="[red]a\x1b[2Jb")
    shown = rendered(
        terminal.arm(make_report([(run, replace(found, rows=(odd, *found.rows[1:])))]).arms[0])
    )
    assert "[red]a [2Jb" in shown


def test_wide_and_long_names_fold_and_figures_stay_whole() -> None:
    run, found = samples.eagle3()
    long = replace(found.rows[0], prompt_id="请推理完这个之后再推理下一个" * 6)
    arm = make_report([(run, replace(found, rows=(long, *found.rows[1:])))]).arms[0]
    shown = rendered(terminal.arm(arm))
    assert max(map(cell_len, shown.splitlines())) <= terminal.WIDTH
    assert "…" not in shown
    assert "2,803  1,128  stop     478     77.7        80.3    3.45  43.0" in shown


def test_many_rows_are_cut_but_every_failure_stays() -> None:
    run, found = samples.failing()
    ok = [replace(found.rows[0], id=f"q{i}", prompt_index=i) for i in range(100)]
    bad = replace(found.rows[2], id="q100", prompt_id="the-bad-one", prompt_index=100)
    arm = make_report([(run, replace(found, rows=(*ok, bad)))]).arms[0]
    shown = rendered(terminal.arm(arm))
    assert "the-bad-one" in shown
    assert "61 more requests are in requests.jsonl." in shown


def test_two_runs_of_one_arm_get_names_of_their_own() -> None:
    report = make_report([samples.sglang(), samples.sglang()])
    assert [arm.name for arm in report.arms] == ["sglang", "sglang #2"]


def test_comparisons_must_match_the_runs() -> None:
    with pytest.raises(ValueError, match="2 runs need 1 comparisons, not 2"):
        make_report([samples.sglang(), samples.eagle3()], [samples.comparison()] * 2)


def test_loops_are_said_as_asked() -> None:
    run, found = samples.sglang()
    load = Load(kind="open", request_rate=4.0, burstiness=1.0, max_concurrency=8)
    header = replace(run.header, plan=replace(run.header.plan, load=load))
    shown = rendered(terminal.arm(make_report([(replace(run, header=header), found)]).arms[0]))
    assert "open loop, 4 req/s, burstiness 1, at most 8 in flight" in shown


def test_a_rate_limit_is_part_of_the_load() -> None:
    run, found = samples.sglang()
    load = Load(kind="closed", concurrency=6, rate_limit="2/s")
    header = replace(run.header, plan=replace(run.header.plan, load=load))
    shown = rendered(terminal.arm(make_report([(replace(run, header=header), found)]).arms[0]))
    assert "closed loop, concurrency 6, held to 2/s" in shown


@pytest.mark.parametrize(("queue_ms", "is_shown"), [(350.0, True), (340.0, False)])
def test_waiting_at_the_client_is_shown_where_it_tells(queue_ms: float, is_shown: bool) -> None:
    run, found = samples.sglang()
    e2e = building.stat([34_500.0, 34_500.0])
    changed = replace(found, queue_ms=building.stat([queue_ms, queue_ms]), e2e_ms=e2e)
    shown = rendered(terminal.arm(make_report([(run, changed)]).arms[0]))
    assert any(line.startswith("queue") for line in shown.splitlines()) == is_shown


def test_answers_of_429_are_told() -> None:
    run, found = samples.sglang()
    changed = replace(found, requests=replace(found.requests, rate_limited=4))
    shown = rendered(terminal.arm(make_report([(run, changed)]).arms[0]))
    assert "4 answers of 429 waited for" in shown


def test_an_imported_run_goes_by_its_label() -> None:
    run, found = samples.sglang()
    header = replace(run.header, imported=Imported(tool="vllm", label="vllm L40"))
    assert make_report([(replace(run, header=header), found)]).arms[0].name == "vllm L40"


def test_an_arm_without_decode_rates_is_marked_beside_one_with() -> None:
    mixed = building.ratio(0.97, (0.96, 0.98), (44.0, 42.72), None)
    against = replace(samples.comparison(), ratios={"tps": mixed}, why=None)
    shown = rendered(
        terminal.comparison(make_report([samples.sglang(), samples.imported()], [against]))
    )
    assert "vllm         e2e 42.72" in shown
    assert "decoding on one side, end to end on the other: 0.97x [0.96, 0.98]: slower" in shown


@pytest.mark.parametrize("wide", range(1, 48))
def test_no_letter_is_lost_beside_wide_characters(wide: int) -> None:
    run, found = samples.sglang()
    said = f"{'普' * wide} has one value a run, without an interval, so that it may be chance alone"
    doubted = replace(found, doubts=(Doubt("few_values", "doubtful", said),))
    report = make_report([(run, doubted), samples.eagle3()], [samples.comparison()])
    shown = rendered(terminal.report(report))
    assert "…" not in shown
    assert "".join(said.split()) in "".join(shown.split())


def throughputs(*rates: float | None) -> list[str]:
    """The rows of a comparison of two runs of which nothing else is known."""
    run, found = samples.imported()
    arms = [
        (run, replace(found, throughput=replace(found.throughput, output_tok_per_s=rate)))
        for rate in rates
    ]
    arms = [(run, replace(arm, tps_e2e=building.tps_stat([], None, None))) for run, arm in arms]
    only = building.ratio(0.3, None, (1174.2, 349.9), None)
    against = replace(samples.comparison(), ratios={"output_tok_per_s": only}, why=None)
    shown = rendered(terminal.comparison(make_report(arms, [against])))
    return [" ".join(line.split()) for line in shown.splitlines()]


def test_output_throughput_is_shown_where_no_other_speed_is_known() -> None:
    lines = throughputs(1174.2, 349.9)
    assert "arm tok/s speedup ms length ms break-even" in lines
    assert "throughput throughput TTFT accept step cost =" in lines
    assert "vllm 1,174.2 baseline - - - 1.00" in lines
    assert "vllm #2 349.9 0.30x - - - -" in lines


def test_without_any_speed_there_are_dashes() -> None:
    lines = throughputs(None, None)
    assert "e2e decode e2e TTFT accept step cost =" in lines
    assert "vllm #2 - - - - - - -" in lines
