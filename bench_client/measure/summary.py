"""A run to its summary: the fold behind `summary.json`, the same right after the run and later."""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import UNSET

from bench_client.measure.answer_positions import answer_parts
from bench_client.measure.doubts import find_doubts, verdict
from bench_client.measure.energy import Energy, gpu_energy
from bench_client.measure.figures import (
    Concurrency,
    PromptRow,
    Repeats,
    RequestCounts,
    Speculation,
    Stat,
    Summary,
    Throughput,
    TpsStat,
)
from bench_client.measure.imported import (
    printed,
    printed_concurrency,
    printed_count,
    printed_speculation,
    printed_stat,
)
from bench_client.measure.intervals import Units
from bench_client.measure.samples import Sample, samples, unit_key
from bench_client.measure.speculation import (
    Steps,
    languages,
    request_step_ms,
    speculation,
    steps_by_request,
)
from bench_client.measure.stats import across_repeats, describe
from bench_client.measure.telemetry import run_telemetry
from bench_client.measure.timeline import (
    concurrency,
    duration_s,
    ok_records,
    per_second,
    request_figures,
    starts_known,
)
from bench_client.records import RequestRecord, Run

FIGURES = (
    "ttft_ms",
    "itl_ms",
    "chunk_gap_ms",
    "tpot_ms",
    "e2e_ms",
    "queue_ms",
    "tps_decode",
    "step_ms",
)


def summarize(run: Run, log_accept_length: float | None = None) -> Summary:
    """Every figure of a run. `log_accept_length` is what the engine's log gives for the window.

    Only requests that ended well count for latencies and token rates.
    """
    found = run_speculation(run, log_accept_length)
    measured = samples(run, unit_key(run), found is not None)
    if found:
        found = _detailed(run, found, measured)
    seconds = run_seconds(run)
    draft = Summary(
        requests=_counts(run),
        duration_s=seconds,
        input_tokens=_tokens(run, "input"),
        output_tokens=_tokens(run, "output"),
        throughput=throughput(run),
        concurrency=_concurrency(run, seconds),
        **{name: _stat(run, measured, name) for name in FIGURES},
        tps_e2e=_tps_e2e(run, measured),
        speculation=found,
        telemetry=run_telemetry(run, run_energy(run)),
        calibration=run.header.client.calibration,
        doubts=(),
        verdict="valid",
        ttft_from_schedule_ms=_optional(run, measured, "ttft_from_schedule_ms"),
        e2e_from_schedule_ms=_optional(run, measured, "e2e_from_schedule_ms"),
        repeats=_repeats(run),
        rows=_rows(run, found),
    )
    doubts = find_doubts(run, draft)
    return msgspec.structs.replace(draft, doubts=doubts, verdict=verdict(doubts))


def run_speculation(run: Run, log_accept_length: float | None = None) -> Speculation | None:
    """Of a run of our own or of another tool's."""
    return speculation(run, log_accept_length) or printed_speculation(run)


def _detailed(run: Run, found: Speculation, measured: Mapping[str, Sample]) -> Speculation:
    """Also by request, each weighing the same, and along the answer."""
    along = answer_parts(run)
    return msgspec.structs.replace(
        found,
        accept_length_per_request=_per_request(run, measured.get("accept_length")),
        by_answer_position=along.parts,
        by_answer_position_note=along.note,
    )


def _per_request(run: Run, lengths: Sample | None) -> Stat | None:
    if lengths is None or not len(lengths.values):
        return None
    units = Units.grouped(lengths.values, lengths.labels)
    return describe(lengths.values, run.header.plan.seed, units)


def run_energy(run: Run) -> Energy | None:
    """For the output tokens that count for throughput."""
    return gpu_energy(run, _tokens(run, "output"))


def run_seconds(run: Run) -> float | None:
    """The measured window in seconds."""
    seconds = printed(run, "duration_s")
    return duration_s(run) if seconds is None else seconds


def _counts(run: Run) -> RequestCounts:
    if not run.records and run.header.imported:
        longest = max(map(len, run.header.imported.samples.values()), default=0)
        ok, failed = printed_count(run, "requests.ok"), printed_count(run, "requests.failed")
        return RequestCounts(ok=longest if ok is None else ok, failed=failed or 0)
    kinds = Counter(
        record.failure.kind if record.failure else "unknown"
        for record in run.records
        if record.outcome == "failed"
    )
    ok = sum(record.outcome == "ok" for record in run.records)
    return RequestCounts(
        ok=ok,
        failed=kinds.total(),
        failures=dict(sorted(kinds.items())),
        rate_limited=sum(record.rate_limited for record in run.records) or UNSET,
    )


def _tokens(run: Run, side: str) -> int | None:
    """All tokens of the requests that ended well; null if one request's are unknown."""
    given = printed_count(run, f"{side}_tokens")
    ok = ok_records(run)
    if given is not None or (run.header.imported and not ok):
        return given
    return _sum(each.input_tokens if side == "input" else each.output_tokens for each in ok)


def _sum(counts: Iterable[int | None]) -> int | None:
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def throughput(run: Run) -> Throughput:
    """Of the requests that ended well, over the whole window."""
    seconds = run_seconds(run)
    ms = None if seconds is None else seconds * 1e3
    tokens = _tokens(run, "input"), _tokens(run, "output")
    rates = {
        "request_per_s": per_second(_counts(run).ok, ms),
        "input_tok_per_s": per_second(tokens[0], ms),
        "output_tok_per_s": per_second(tokens[1], ms),
        "total_tok_per_s": per_second(_sum(tokens), ms),
    }
    given = {name: printed(run, f"throughput.{name}") for name in rates}
    return Throughput(
        **{name: rate if given[name] is None else given[name] for name, rate in rates.items()}
    )


def _concurrency(run: Run, seconds: float | None) -> Concurrency:
    given = printed_concurrency(run, seconds)
    if given:
        return given
    return concurrency(run.records if starts_known(run) else (), seconds)


def _stat(run: Run, measured: Mapping[str, Sample], name: str) -> Stat:
    sample = measured.get(name)
    if sample is None or not len(sample.values):
        return printed_stat(run, name)
    return describe(sample.values, run.header.plan.seed, sample.units())


def _optional(run: Run, measured: Mapping[str, Sample], name: str) -> Stat | None:
    stat = _stat(run, measured, name)
    return stat if stat.n or name in measured else None


def _tps_e2e(run: Run, measured: Mapping[str, Sample]) -> TpsStat:
    ok = [(each.output_tokens, request_figures(each).e2e_ms) for each in ok_records(run)]
    known = [(tokens, ms) for tokens, ms in ok if tokens is not None and ms is not None]
    pooled = per_second(sum(tokens for tokens, _ in known), sum(ms for _, ms in known))
    stat = msgspec.structs.asdict(_stat(run, measured, "tps_e2e"))
    return TpsStat(**stat, pooled=printed(run, "tps_e2e.pooled") if pooled is None else pooled)


def _repeats(run: Run) -> Repeats | None:
    """Drift between whole repeats, which an interval over prompts cannot show."""
    by_repeat: dict[int, list[float]] = {}
    for record in ok_records(run):
        rate = request_figures(record).tps_decode
        if rate is not None:
            by_repeat.setdefault(record.repeat, []).append(rate)
    runs = across_repeats(by_repeat)
    if runs.mean is None or runs.sd is None:
        return None
    return Repeats(n=runs.n, sd=runs.sd, relative_sd=runs.sd / runs.mean)


def _rows(run: Run, found: Speculation | None) -> tuple[PromptRow, ...]:
    names = {each.prompt_index: each.prompt_id for each in run.header.plan.requests}
    spoken, steps_of = languages(run), steps_by_request(run)
    return tuple(
        _row(
            record,
            steps_of(record) if found else None,
            found is not None,
            (names.get(record.prompt_index), spoken.get(record.prompt_index)),
        )
        for record in sorted(run.records, key=lambda each: (each.repeat, each.prompt_index))
    )


def _row(
    record: RequestRecord,
    steps: Steps | None,
    speculates: bool,
    told: tuple[str | None, str | None],
) -> PromptRow:
    figures = request_figures(record)
    return PromptRow(
        id=record.id,
        prompt_index=record.prompt_index,
        prompt_id=told[0],
        language=told[1],
        repeat=record.repeat,
        outcome=record.outcome,
        finish_reason=record.finish_reason,
        input_tokens=record.input_tokens,
        output_tokens=record.output_tokens,
        ttft_ms=figures.ttft_ms,
        e2e_ms=figures.e2e_ms,
        tps_e2e=figures.tps_e2e,
        tps_decode=figures.tps_decode,
        accept_length=steps.accept_length if steps else None,
        verify_steps=round(steps.steps) if steps else None,
        step_ms=request_step_ms(record, steps, speculates),
        prompt_sha256=record.prompt_sha256 or None,
    )
