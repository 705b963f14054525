"""Reasons to trust a run less, and the verdict. Limits: docs/method.md, "Doubts"."""

from collections.abc import Iterator

from bench_client.measure.doubts_client import client_doubts
from bench_client.measure.doubts_server import server_doubts
from bench_client.measure.figures import Doubt, Severity, Summary, Verdict
from bench_client.measure.stats import PERCENTILE_NEEDS, across_repeats
from bench_client.measure.timeline import ok_records, request_figures
from bench_client.records import Run

FEWEST_REQUESTS = 5
SHORTEST_DECODE_S = 5.0
REPEATS_NOTE, REPEATS_DOUBT = 0.02, 0.05


def find_doubts(run: Run, summary: Summary) -> tuple[Doubt, ...]:
    """Every doubt about `run`, the gravest first; `summary` holds the figures, without doubts."""
    found = [*_run_doubts(run, summary), *server_doubts(run, summary)]
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
    yield from _interrupted(run)
    if summary.requests.ok:
        yield from _short(run, summary)
        yield from _percentiles(summary)
        yield from _token_counts(run)
        yield from _repeats(run)


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


def _interrupted(run: Run) -> Iterator[Doubt]:
    ended, planned = run.header.ended, len(run.header.plan.requests)
    if ended in ("complete", None):
        if len(run.records) >= planned:
            return
        ended = None  # a block of repeats is complete, the experiment ended before the others
    of_all = f" of {planned}" if planned else ""
    yield Doubt(
        "interrupted",
        "invalid" if ended == "aborted" else "doubtful",
        f"the run was {ended or 'cut off'} after {len(run.records)}{of_all} requests: "
        "its figures cover those only; run it again to the end",
    )


def _short(run: Run, summary: Summary) -> Iterator[Doubt]:
    figures = [request_figures(record) for record in ok_records(run)]
    decode_s = sum(each.decode_ms or 0.0 for each in figures) / 1e3
    few = summary.requests.ok < FEWEST_REQUESTS
    if few or (figures and decode_s < SHORTEST_DECODE_S):
        seconds = f" and {decode_s:.1f} s of decoding" if figures else ""
        yield Doubt(
            "short_run",
            "doubtful",
            f"only {summary.requests.ok} requests{seconds}: use at least {FEWEST_REQUESTS} prompts "
            f"and {SHORTEST_DECODE_S:g} s of decoding, or --repeat",
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


def _repeats(run: Run) -> Iterator[Doubt]:
    """Drift between whole repeats, which an interval over prompts cannot show."""
    by_repeat: dict[int, list[float]] = {}
    for record in ok_records(run):
        rate = request_figures(record).tps_decode
        if rate is not None:
            by_repeat.setdefault(record.repeat, []).append(rate)
    runs = across_repeats(by_repeat)
    if runs.mean is None or runs.sd is None or runs.sd <= REPEATS_NOTE * runs.mean:
        return
    yield Doubt(
        "repeats_differ",
        "doubtful" if runs.sd > REPEATS_DOUBT * runs.mean else "note",
        f"tps_decode differs by {runs.sd / runs.mean:.1%} (sd) between {runs.n} repeats of the "
        "same prompts: look for other load, clocks or heat, or add repeats",
    )
