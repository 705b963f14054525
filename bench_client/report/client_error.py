"""The client's own error in words, with the load that it was measured at."""

from collections.abc import Iterator

from bench_client.measure.error import CARRIED, carried
from bench_client.records import Calibration, RunHeader
from bench_client.report.text import number, percent, times


def client_error(calibration: Calibration | None, header: RunHeader) -> str:
    """The client's own error, and at what load it was measured."""
    if calibration is None:
        return "not calibrated (bench-client calibrate measures it at this load)"
    ttft, gap, which = calibration.ttft_error_mean_ms, calibration.gap_error_p99_ms, "p99"
    if gap is None:
        gap, which = calibration.gap_error_max_ms or 0.0, "max"
    limits = "".join(_uncalibrated(header))
    return (
        f"{_calibrated_at(calibration)}: TTFT {ttft:+.{_small(ttft)}f} ms, "
        f"gap {which} ±{number(gap, _small(gap))} ms{limits}"
    )


def _calibrated_at(found: Calibration) -> str:
    share, rate = carried(found), f"at {number(found.events_per_s, 0)} events/s"
    if share is None:
        return rate
    if share < CARRIED:
        return f"{rate}, {percent(share)} of this load"
    return "at this load" if share <= 1 / CARRIED else f"{rate}, {times(share, 1)} this load"


def _uncalibrated(header: RunHeader) -> Iterator[str]:
    """What the run had and the embedded engine has not."""
    if header.server.url.startswith("https:"):
        yield "; over plain http, so what TLS adds is not in it"
    if header.client.worker_clocks:
        yield "; on the machine that conducted the run, not on its workers'"


def _small(ms: float) -> int:
    return 2 if abs(ms) >= 0.01 else 3
