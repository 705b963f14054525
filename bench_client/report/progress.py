"""The one line that shows how far a run has come."""

from msgspec import Struct

from bench_client.report.text import UNKNOWN, duration, number, tps_decimals


class Progress(Struct, frozen=True, kw_only=True):
    """Counts of a running arm.

    `output_tokens` are those of ended requests. `last_end_s` is when the latest of them ended and
    `elapsed_s` is now, both in seconds since the run began; a rate up to now would be too low
    while a request is under way, for its tokens are not counted yet.
    """

    name: str
    total: int
    started: int
    ok: int
    failed: int
    output_tokens: int
    elapsed_s: float
    last_end_s: float | None = None


def progress_line(progress: Progress) -> str:
    """`sim-eagle3  7/11  ok 6 failed 0  86.9 tok/s  elapsed 0:42  ETA 0:21`."""
    return "  ".join(
        (
            progress.name,
            f"{progress.started}/{progress.total}",
            f"ok {progress.ok} failed {progress.failed}",
            f"{_rate(progress)} tok/s",
            f"elapsed {duration(progress.elapsed_s)}",
            f"ETA {duration(_remaining_s(progress))}",
        )
    )


def _rate(progress: Progress) -> str:
    if not progress.last_end_s:
        return UNKNOWN
    rate = progress.output_tokens / progress.last_end_s
    return number(rate, tps_decimals(rate))


def _remaining_s(progress: Progress) -> float | None:
    ended = progress.ok + progress.failed
    if not progress.last_end_s or not ended:
        return None
    end_s = progress.last_end_s * progress.total / ended
    return max(0.0, end_s - progress.elapsed_s)
