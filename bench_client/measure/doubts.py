"""Reasons to trust a run less, and the verdict. Limits: docs/method.md, "Doubts"."""

import statistics
from collections.abc import Iterator

from bench_client.measure.doubts_client import client_doubts
from bench_client.measure.doubts_server import server_doubts
from bench_client.measure.doubts_speculation import speculation_doubts
from bench_client.measure.figures import Doubt, Severity, Summary, Verdict
from bench_client.measure.imported import log_lines
from bench_client.measure.stats import PERCENTILE_NEEDS, across_repeats
from bench_client.measure.timeline import ok_records, request_figures
from bench_client.records import Run

FEWEST_REQUESTS = 5
SHORTEST_DECODE_S = 5.0
LENGTHS_SPREAD = 0.5
REPEATS_NOTE, REPEATS_DOUBT = 0.02, 0.05


def find_doubts(run: Run, summary: Summary) -> tuple[Doubt, ...]:
    """Every doubt about `run`, the gravest first; `summary` holds the figures, without doubts."""
    found = [
        *_run_doubts(run, summary),
        *speculation_doubts(run, summary),
        *server_doubts(run, summary),
    ]
    if run.header.imported is None:
        found += client_doubts(run, summary)
    gravity: tuple[Severity, ...] = ("invalid", "doubtful", "note")
    return tuple(sorted(found, key=lambda doubt: gravity.index(doubt.severity)))


def verdict(doubts: tuple[Doubt, ...]) -> Verdict:
    """The gravest of the doubts; notes leave a run valid."""
    severities = {doubt.severity for doubt in doubts}
    if "invalid" in severities:
        return "invalid"
    return "doubtful" if "doubtful" in severities else "valid"


def _run_doubts(run: Run, summary: Summary) -> Iterator[Doubt]:
    yield from _failures(summary)
    yield from _interrupted(run, summary.requests.ok)
    yield from _slots(run, summary)
    yield from _rate_limited(run)
    if summary.requests.ok:
        yield from _short(run, summary)
        yield from _percentiles(summary)
        yield from _token_counts(run)
        yield from _lengths(run)
        yield from _repeats(run, summary)


def _failures(summary: Summary) -> Iterator[Doubt]:
    counts = summary.requests
    total = counts.ok + counts.failed
    if not total:
        yield Doubt(
            "empty_run", "invalid", "no request ended: see the server's log, then run again"
        )
    # What an interruption cut off has a doubt of its own.
    if counts.failed > counts.failures.get("interrupted", 0):
        kinds = ", ".join(f"{kind} {n}" for kind, n in sorted(counts.failures.items()))
        yield Doubt(
            "failed_requests",
            "invalid",
            f"{counts.failed} of {total} requests failed ({kinds or 'no reason given'}): "
            "the figures speak of the others only; see requests.jsonl and run again",
        )


def _interrupted(run: Run, ok: int) -> Iterator[Doubt]:
    ended, planned = run.header.ended, len(run.header.plan.requests)
    if ended in ("complete", None):
        if len(run.records) >= planned:
            return
        ended = None  # a block of repeats is complete, the experiment ended before the others
    of_all = f" of {planned}" if planned else ""
    yield Doubt(
        "interrupted",
        "invalid" if ended == "aborted" or not ok else "doubtful",
        f"the run was {ended or 'cut off'} after {len(run.records)}{of_all} requests: "
        "its figures cover those only; run it again to the end",
    )


def _slots(run: Run, summary: Summary) -> Iterator[Doubt]:
    plan, peak = run.header.plan, summary.concurrency.peak
    slots, prompts = plan.load.concurrency or 0, len(plan.requests) // plan.repeats
    if peak is not None and peak <= prompts < slots:
        yield Doubt(
            "fewer_requests_than_slots",
            "doubtful",
            f"{slots} requests were to be in flight and there were only {prompts} to send, so the "
            f"figures are those of {prompts} or fewer: give more prompts or a lower --concurrency",
        )


def _rate_limited(run: Run) -> Iterator[Doubt]:
    """Waiting that the server asked for is no latency, but the whole takes longer by it."""
    struck = [record for record in run.records if record.rate_limited]
    if struck:
        refused = sum(record.rate_limited for record in struck)
        queued_s = sum(request_figures(record).queue_ms or 0.0 for record in struck) / 1e3
        yield Doubt(
            "rate_limited",
            "doubtful",
            f"the server answered 429 {refused} times to {len(struck)} of {len(run.records)} "
            f"requests, which waited {queued_s:.1f} s in all before their last sending: "
            "throughput, concurrency and queue time are its limit's, so send less (--rate-limit)",
        )


def _short(run: Run, summary: Summary) -> Iterator[Doubt]:
    decoding = [request_figures(record).decode_ms for record in ok_records(run)]
    if run.header.imported:  # many tools do not keep when a token came
        decoding = [ms for ms in decoding if ms is not None]
    decode_s = sum(ms or 0.0 for ms in decoding) / 1e3
    lacking = []
    lines = log_lines(run)
    held, what = (summary.requests.ok, "requests") if lines is None else (lines, "log lines")
    if held < FEWEST_REQUESTS:
        lacking.append((f"{held} {what}", f"{FEWEST_REQUESTS} {what}"))
    if decoding and decode_s < SHORTEST_DECODE_S:
        lacking.append((f"{decode_s:.1f} s of decoding", f"{SHORTEST_DECODE_S:g} s of decoding"))
    if lacking:
        found, needed = (" and ".join(parts) for parts in zip(*lacking, strict=True))
        yield Doubt(
            "short_run",
            "doubtful",
            f"only {found}: {needed} are the least, by more prompts, longer answers or --repeat",
        )


def _percentiles(summary: Summary) -> Iterator[Doubt]:
    n = summary.ttft_ms.n
    missing = [name for name, needs in PERCENTILE_NEEDS.items() if 0 < n < needs]
    if missing:
        yield Doubt(
            "unsupported_percentile",
            "note",
            f"{n} requests cannot support {', '.join(missing)} of a request's figures: "
            f"{missing[0]} needs {PERCENTILE_NEEDS[missing[0]]}",
        )


def _token_counts(run: Run) -> Iterator[Doubt]:
    ok = ok_records(run)
    unknown = sum(each.output_tokens is None or None in each.events.tokens for each in ok)
    spread = sum(each.token_count_source in ("final_usage", "tokenizer") for each in ok)
    if unknown:
        yield Doubt(
            "unknown_token_counts",
            "doubtful",
            f"{unknown} of {len(ok)} answers have unknown token counts and are missing from token "
            "rates and ITL: ask the server for usage (include_usage, continuous_usage_stats)",
        )
    elif spread:
        yield Doubt(
            "estimated_token_counts",
            "note",
            f"{spread} of {len(ok)} answers have a known total but estimated tokens by event: "
            "their ITL is approximate; continuous usage or token ids would make it exact",
        )


def _lengths(run: Run) -> Iterator[Doubt]:
    """Where answers end by themselves, a mean over requests weighs a few tokens like many."""
    lengths = [each.output_tokens for each in ok_records(run) if each.output_tokens]
    spread = statistics.stdev(lengths) / statistics.fmean(lengths) if len(lengths) > 1 else 0.0
    if spread <= LENGTHS_SPREAD or run.header.plan.sampling.ignore_eos:
        return
    yield Doubt(
        "unequal_output_lengths",
        "note",
        f"answers have {min(lengths)} to {max(lengths)} tokens (sd {spread:.0%} of the mean) and "
        "weigh the same in a mean rate: see the pooled rate too, or fix the length with "
        "--ignore-eos",
    )


def _repeats(run: Run, summary: Summary) -> Iterator[Doubt]:
    runs = summary.repeats
    if runs is None or runs.relative_sd <= REPEATS_NOTE:
        return
    differ = (
        f"tps_decode differs by {runs.relative_sd:.1%} (sd) between {runs.n} repeats of the same "
        "prompts"
    )
    steps = _steps_differ(summary)
    if run.header.plan.sampling.temperature > 0 and steps is not None and steps <= REPEATS_NOTE:
        yield Doubt(
            "repeats_differ",
            "note",
            f"{differ} and the time of a step by {steps:.1%}: it is the accept lengths of sampled "
            "answers that differ, so --temperature 0, longer answers or more prompts help",
        )
        return
    yield Doubt(
        "repeats_differ",
        "doubtful" if runs.relative_sd > REPEATS_DOUBT else "note",
        f"{differ}: look for other load, clocks or heat, or add repeats",
    )


def _steps_differ(summary: Summary) -> float | None:
    """Sd over mean of the repeats' step times; null where not every answer's is known."""
    if summary.speculation is None:
        return None
    by_repeat: dict[int, list[float]] = {}
    for row in summary.rows:
        if row.tps_decode is None:
            continue
        if row.step_ms is None:
            return None
        by_repeat.setdefault(row.repeat, []).append(row.step_ms)
    runs = across_repeats(by_repeat)
    return None if runs.mean is None or runs.sd is None else runs.sd / runs.mean
