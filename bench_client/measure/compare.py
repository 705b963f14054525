"""One run against a baseline: what may be compared, by how much they differ, and why.

Formulas: docs/method.md, "Ratios" and "Pairing".
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from bench_client.measure.aggregates import one_sided, ratios_of_aggregates
from bench_client.measure.caveats import TARGET, unequal_lengths, unseen
from bench_client.measure.comparability import (
    differences,
    refusal,
    shared_prompts,
    unpaired_reason,
)
from bench_client.measure.explain import explain
from bench_client.measure.figures import RATIOS, Comparison, Explanation, PairRow, Ratio
from bench_client.measure.fit import fit
from bench_client.measure.intervals import FEWEST_UNITS, Interval95, Units
from bench_client.measure.lossless import lengths_apart, lossless
from bench_client.measure.pairs import (
    by_prompt,
    by_repeat,
    common_part,
    log_ratios,
    pair_rows,
)
from bench_client.measure.percentiles import NAMES, percentile_ratio, split_name
from bench_client.measure.repeats import table_of, with_drift, with_needed
from bench_client.measure.samples import Key, Sample, samples, unit_key
from bench_client.measure.setups import unlike_work
from bench_client.measure.speculation import plain_step_ms
from bench_client.measure.stats import ratio_of, repeats_as_units
from bench_client.measure.summary import run_speculation
from bench_client.records import Run

Samples = Mapping[str, Sample]


def compare(baseline: Run, other: Run, *, percentiles: Sequence[str] = ()) -> Comparison:
    """`other` against `baseline`. What may not be concluded, `refused` says; nothing is raised.

    `percentiles` names those whose ratios are wanted too (`ttft_ms.p99`); other names are ignored.
    """
    refused, reason = refusal(baseline, other), unpaired_reason(baseline, other)
    found = Comparison(
        baseline=_name(baseline),
        other=_name(other),
        paired=not refused and reason is None,
        unpaired_reason=reason,
        refused=refused,
        ratios={},
        why=None,
        lossless=None,
        shared_prompts=shared_prompts(baseline, other) if not (refused or reason) else None,
    )
    return found if refused else _compared(found, baseline, other, percentiles)


def _name(run: Run) -> str:
    imported = run.header.imported
    return (imported.label if imported else None) or run.header.server.name


def _compared(
    found: Comparison, baseline: Run, other: Run, percentiles: Sequence[str]
) -> Comparison:
    keys = (
        [_pair_key(baseline, other)] * 2 if found.paired else [unit_key(baseline), unit_key(other)]
    )
    spoke, spoken = run_speculation(baseline), run_speculation(other)
    below = samples(baseline, keys[0], spoke is not None)
    above = samples(other, keys[1], spoken is not None)
    imported = bool(baseline.header.imported or other.header.imported)
    how = Interval95(found.paired, baseline.header.plan.seed, widened=not imported)
    ratios = dict(_ratios(below, above, how))
    repeats = 1
    if found.paired:
        ratios, repeats = _with_repeats(ratios, baseline, other)
    ratios |= _ratios_of_percentiles(below, above, percentiles, how)
    lacking = [name for name in (*RATIOS, *percentiles) if name not in ratios]
    ratios |= ratios_of_aggregates((baseline, other), (below, above), lacking, how)
    decode = ratios.get("tps_decode")
    measured = decode.ratio if decode else None
    rows = pair_rows(baseline, other) if found.paired else ()
    same = lossless(baseline, other)
    # Where answers themselves were compared, that says it all.
    apart = 0.0 if same and same.compared else lengths_apart(baseline, other)
    return msgspec.structs.replace(
        found,
        ratios=ratios,
        one_sided=one_sided((baseline, other), (below, above), ratios),
        why=_explained((baseline, other), (below, above), found, measured),
        repeats=repeats,
        by_language=dict(_by_language(rows, how)),
        lossless=same,
        rows=rows,
        warnings=(
            *differences(baseline, other),
            *unequal_lengths(ratios, apart),
            *_mixed_definitions(below, ratios),
            *unseen(decode, repeats),
        ),
    )


def _pair_key(baseline: Run, other: Run) -> Key:
    if _repeats_are_pairs(baseline, other):
        return lambda record: record.repeat
    return lambda record: record.prompt_sha256


def _repeats_are_pairs(baseline: Run, other: Run) -> bool:
    """Pairs are prompts; with fewer than 3 of them, repeats, if there are as many."""
    common = by_prompt(baseline).keys() & by_prompt(other).keys()
    repeats = min(run.header.plan.repeats for run in (baseline, other))
    return len(common) < FEWEST_UNITS <= repeats


def _with_repeats(
    ratios: Mapping[str, Ratio], baseline: Run, other: Run
) -> tuple[dict[str, Ratio], int]:
    """Paired ratios whose intervals hold drift, and how many repeats showed it; 1: none could."""
    if _repeats_are_pairs(baseline, other):
        pairs = max((ratio.n[0] for ratio in ratios.values()), default=1)
        return {figure: _of_repeats(ratio) for figure, ratio in ratios.items()}, pairs
    if any(len({record.repeat for record in run.records}) < 2 for run in (baseline, other)):
        return dict(ratios), 1
    sides = [by_repeat(run) for run in (baseline, other)]
    found, repeats = dict(ratios), 1
    for figure, ratio in ratios.items():
        if figure not in sides[0] or figure not in sides[1]:
            continue
        table = table_of(log_ratios(sides[0][figure], sides[1][figure]))
        if table:
            found[figure] = with_needed(with_drift(ratio, table), table, TARGET)
            repeats = max(repeats, table.k)
    return found, repeats


def _of_repeats(ratio: Ratio) -> Ratio:
    if ratio.mdd is None:
        return ratio
    needed = repeats_as_units(ratio.mdd, ratio.n[0], TARGET)
    return msgspec.structs.replace(ratio, recommended_repeats=needed)


def _explained(
    both: tuple[Run, Run], kept: tuple[Samples, Samples], found: Comparison, measured: float | None
) -> Explanation | None:
    if unlike_work(*both):
        return None
    if found.shared_prompts:
        return _why_of_part(*common_part(*both), measured)
    return _why(both, kept, measured)


def _why(
    both: tuple[Run, Run], kept: tuple[Samples, Samples], measured: float | None
) -> Explanation | None:
    baseline, other = both
    if run_speculation(baseline):
        return None
    base_step = plain_step_ms(baseline) or _mean(kept[0].get("step_ms"))
    length = _prompt_mean(kept[1])
    return explain(base_step, run_speculation(other), length, measured, fit(other))


def _why_of_part(baseline: Run, other: Run, measured: float | None) -> Explanation | None:
    """Of the prompts that were compared: what only whole runs have explains no part of one."""
    spoken = run_speculation(other)
    if spoken is None or spoken.accept_length_source != "per_request":
        return None
    kept = samples(baseline, unit_key(baseline), False), samples(other, unit_key(other), True)
    return _why((baseline, other), kept, measured)


def _by_language(rows: Sequence[PairRow], how: Interval95) -> Iterator[tuple[str, Ratio]]:
    """The decode rates' ratio over the prompts of each language, where there are several."""
    known = [row for row in rows if row.language and row.speedup]
    spoken = sorted({row.language or "" for row in known})
    for language in spoken if len(spoken) > 1 else ():
        pairs = [
            (row.baseline_tps_decode, row.other_tps_decode)
            for row in known
            if row.language == language
        ]
        below, above = np.array(pairs, dtype=np.float64).T
        yield language, ratio_of(Units.single(below), Units.single(above), "tps_decode", how)


def _ratios_of_percentiles(
    below: Samples, above: Samples, names: Sequence[str], how: Interval95
) -> dict[str, Ratio]:
    """Of those that are asked for and of which both runs have values."""
    found = {}
    for name in names:
        figure = split_name(name)[0]
        sides = below.get(figure), above.get(figure)
        if name in NAMES and sides[0] and sides[1] and sides[0].labels and sides[1].labels:
            found[name] = percentile_ratio(sides[0], sides[1], name, how.paired, how.seed)
    return found


def _ratios(below: Samples, above: Samples, how: Interval95) -> Iterator[tuple[str, Ratio]]:
    """Of every figure that both runs have, value by value."""
    names = {name: (name, name) for name in RATIOS}
    rates = _lone_rate(below), _lone_rate(above)
    if rates[0] and rates[1] and rates[0] != rates[1]:
        names["tps"] = rates[0], rates[1]
    for figure, (mine, theirs) in names.items():
        sides = below.get(mine), above.get(theirs)
        if sides[0] is None or sides[1] is None:
            continue
        if not len(sides[0].values) or not len(sides[1].values):
            continue
        if not how.paired:
            yield figure, ratio_of(sides[0].units(), sides[1].units(), figure, how)
        elif pairs := _pairs(sides[0], sides[1]):
            yield figure, ratio_of(*pairs, figure, how)


def _lone_rate(found: Samples) -> str | None:
    """The one token rate of a run that has no other (another tool's)."""
    known = [name for name in ("tps_decode", "tps_e2e") if name in found and found[name].labels]
    return known[0] if len(known) == 1 else None


def _pairs(below: Sample, above: Sample) -> tuple[Units, Units] | None:
    """Units of the labels that both have, a label's requests averaged."""
    mine, theirs = below.averaged(), above.averaged()
    common = [label for label in mine if label in theirs]
    if not common:
        return None
    sides = (np.array([side[label] for label in common]) for side in (mine, theirs))
    before, after = (Units(side[:, 0], side[:, 1]) for side in sides)
    return before, after


def _prompt_mean(found: Samples) -> float | None:
    """Mean over requests of their own accept lengths, as a ratio of mean rates weighs them."""
    own = found.get("accept_length")
    return float(own.values.mean()) if own and len(own.values) else None


def _mean(sample: Sample | None) -> float | None:
    return sample.units().mean if sample and len(sample.values) else None


def _mixed_definitions(below: Samples, ratios: Mapping[str, Ratio]) -> Iterator[str]:
    if "tps" not in ratios:
        return
    runs = ["baseline", "other run"]
    if _lone_rate(below) != "tps_decode":
        runs.reverse()
    yield (
        f"the {runs[0]}'s token rate is of decoding only and the {runs[1]}'s includes the prefill: "
        "part of the ratio is definition"
    )
