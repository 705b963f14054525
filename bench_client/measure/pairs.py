"""Prompts that two runs share, one by one. See docs/method.md, "Pairing"."""

import math
from collections.abc import Hashable, Sequence, Set

from msgspec import structs

from bench_client.measure.figures import PairRow
from bench_client.measure.samples import Sample, samples
from bench_client.measure.speculation import StepsOf, languages, steps_by_request
from bench_client.measure.summary import run_speculation
from bench_client.measure.timeline import ok_records, request_figures
from bench_client.records import RequestRecord, Run

ByPrompt = dict[str, list[RequestRecord]]


def by_prompt(run: Run) -> ByPrompt:
    """The answers by prompt hash."""
    found: ByPrompt = {}
    for record in ok_records(run):
        found.setdefault(record.prompt_sha256, []).append(record)
    return found


def pair_rows(baseline: Run, other: Run) -> tuple[PairRow, ...]:
    """One row for each prompt that both runs answered, its repeats averaged."""
    mine, theirs = by_prompt(baseline), by_prompt(other)
    names = {each.prompt_index: each.prompt_id for each in baseline.header.plan.requests}
    spoken = languages(baseline)
    steps_of = steps_by_request(other) if run_speculation(other) else None
    rows = []
    for prompt, records in mine.items():
        if prompt not in theirs:
            continue
        index = records[0].prompt_index
        before, after = _decode_rate(records), _decode_rate(theirs[prompt])
        rows.append(
            PairRow(
                prompt_index=index,
                prompt_id=names.get(index),
                language=spoken.get(index),
                baseline_tps_decode=before,
                other_tps_decode=after,
                speedup=after / before if before and after else None,
                accept_length=_accept_length(theirs[prompt], steps_of) if steps_of else None,
            )
        )
    return tuple(sorted(rows, key=lambda row: row.prompt_index))


def _decode_rate(records: Sequence[RequestRecord]) -> float | None:
    rates = [request_figures(record).tps_decode for record in records]
    known = [rate for rate in rates if rate is not None]
    return sum(known) / len(known) if known else None


def _accept_length(records: Sequence[RequestRecord], steps_of: StepsOf) -> float | None:
    parts = map(steps_of, records)
    known = [part for part in parts if part]
    steps = sum(part.steps for part in known)
    return sum(part.tokens for part in known) / steps if steps else None


def common_part(baseline: Run, other: Run) -> tuple[Run, Run]:
    """Both with only the prompts that both answered, and without counters, which are of all."""
    common = by_prompt(baseline).keys() & by_prompt(other).keys()
    return _part(baseline, common), _part(other, common)


def _part(run: Run, prompts: Set[str]) -> Run:
    kept = tuple(each for each in run.records if each.prompt_sha256 in prompts)
    server = structs.replace(run.header.server, counters_before=None, counters_after=None)
    header = structs.replace(run.header, server=server)
    return structs.replace(run, records=kept, header=header)


def by_repeat(run: Run) -> dict[str, Sample]:
    """Every figure's sample, with (prompt, repeat) as labels."""
    speculates = run_speculation(run) is not None
    return samples(run, lambda record: (record.prompt_sha256, record.repeat), speculates)


def log_ratios(baseline: Sample, other: Sample) -> list[dict[int, float]]:
    """Logarithms of a figure's ratio, by prompt and then by repeat; labels as of `by_repeat`."""
    mine, theirs = _means(baseline), _means(other)
    found: dict[Hashable, dict[int, float]] = {}
    for label, before in mine.items():
        after = theirs.get(label)
        if after is not None and isinstance(label, tuple):
            found.setdefault(label[0], {})[label[1]] = math.log(after / before)
    return list(found.values())


def _means(sample: Sample) -> dict[Hashable, float]:
    """By label; those that are not above 0 have no logarithm."""
    parts = sample.averaged().items()
    return {label: total / count for label, (total, count) in parts if total > 0 and count > 0}
