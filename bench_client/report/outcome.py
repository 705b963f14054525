"""One arm against another, in sentences: by how much, how sure, why, and what speaks against it."""

from collections.abc import Iterator
from statistics import fmean

from bench_client.measure.figures import Comparison, Ratio
from bench_client.report.arms import Arm
from bench_client.report.sentences import Line, language
from bench_client.report.text import number, percent, plural, ratio_with_interval, times

SPEEDS = {
    "tps_decode": "decoding",
    "tps_e2e": "end to end",
    "tps_e2e_pooled": "all the work",
    "tps": "decoding on one side, end to end on the other:",
}
SAME = 0.0005  # a ratio that prints as 1.000x


def outcome(baseline: Arm, found: Comparison) -> Iterator[Line]:
    """One arm against the baseline: how much faster, how sure, why, and what speaks against it."""
    if found.refused:
        yield "refused", found.refused
        return
    yield from (("speed", line) for line in _speeds(baseline.name, found))
    if found.why:
        yield "why", found.why.sentence
        if found.why.fit:
            yield "", found.why.fit.sentence
    yield from (("", line) for line in _by_language(found))
    yield "pairing", _pairing(found)
    if found.lossless:
        yield "outputs", found.lossless.sentence
    yield from (("warning", warning) for warning in found.warnings)


def _speeds(baseline: str, found: Comparison) -> Iterator[str]:
    known = {figure: ratio for figure, ratio in found.ratios.items() if ratio.ratio is not None}
    # The whole run's throughput says how loaded the server was too: only where nothing else is.
    said = [figure for figure in SPEEDS if figure in known] or ["output_tok_per_s"]
    for figure in said:
        ratio = known.get(figure)
        if ratio and ratio.ratio is not None:
            what = SPEEDS.get(figure, "output throughput")
            yield f"{what} {_verdict(ratio, ratio.ratio, baseline)}"


def _verdict(found: Ratio, ratio: float, baseline: str) -> str:
    if found.ci95 is None:
        why = "one value a run, without" if found.n == (1, 1) else "too few values for"
        return f"{times(ratio)} the speed of {baseline}, {why} an interval"
    shown = " ".join(ratio_with_interval(ratio, found.ci95))
    if all(abs(end - 1) < SAME for end in found.ci95):
        return f"{shown}: the same as {baseline}"
    if found.ci95[0] <= 1 <= found.ci95[1]:
        unseen = (
            ""
            if found.mdd is None
            else f"; one of {percent(found.mdd)} would be, with 80% probability"
        )
        return f"{shown}: no difference from {baseline} shown{unseen}"
    return f"{shown}: {'faster' if ratio > 1 else 'slower'} than {baseline}"


def _by_language(found: Comparison) -> Iterator[str]:
    """Where speculation pays, and where it does not: measured on each language's own prompts."""
    break_even = f" (break-even {number(found.why.cost, 2)})" if found.why else ""
    for code, ratio in found.by_language.items():
        lengths = [row.accept_length for row in found.rows if row.language == code]
        known = [length for length in lengths if length is not None]
        said = f"{language(code)} prompts, {ratio.n[0]}: decoding {_effect(ratio)}"
        yield f"{said}; accept length {number(fmean(known), 2)}{break_even}" if known else said


def _effect(found: Ratio) -> str:
    if found.ci95 is None:
        return times(found.ratio)
    shown = " ".join(ratio_with_interval(found.ratio, found.ci95))
    if found.ci95[0] <= 1 <= found.ci95[1]:
        return f"{shown}, no difference shown"
    return f"{shown}, {'faster' if found.ci95[0] > 1 else 'slower'}"


def _pairing(found: Comparison) -> str:
    if not found.paired:
        return (
            f"unpaired: {found.unpaired_reason or 'no reason given'}; what varies from run to run "
            "is in no interval"
        )
    means = [ratio for name, ratio in found.ratios.items() if "." not in name]  # not percentiles
    if not means:
        return "nothing to pair: no prompt was answered in both runs"
    said = f"paired by prompt, {plural(max((ratio.n[0] for ratio in means), default=0), 'pair')}"
    if found.repeats > 1:
        said += f", {found.repeats} repeats, whose drift the intervals hold"
    else:
        said += ", one run of each: what varies from run to run is in no interval (see --repeat)"
    if found.shared_prompts:
        shared, every = found.shared_prompts
        said += f"; {shared} of {every} prompts are in both runs, the others are left out"
    return said
