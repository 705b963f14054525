"""Doubts about the measuring side: each provoked, and left alone."""

from typing import Any

import pytest

from bench_client.records import Calibration, Clock, Events, Load

from .doubting import doubts, good, severity
from .runs import answer, imported, run


def test_clock_step() -> None:
    stepped = {"clock": Clock(step_ns=-3_000_000, checks=9)}
    assert severity(run(good(), client=stepped), "clock_step") == "doubtful"
    hour = {"clock": Clock(step_ns=3_600_000_000_000, checks=9)}
    assert severity(run(good(), client=hour), "clock_step") == "invalid"
    assert (
        severity(run(good(), client={"clock": Clock(step_ns=5000, checks=9)}), "clock_step") is None
    )


def test_merged_events() -> None:
    assert severity(run(good(reads=45)), "merged_events") == "doubtful"
    assert severity(run(good(reads=50)), "merged_events") is None  # 51 events


def test_core_saturated() -> None:
    assert severity(run(good(), client={"cpu_s": 14.0}), "core_saturated") == "invalid"
    assert severity(run(good(), client={"cpu_s": 14.0, "workers": 2}), "core_saturated") is None
    assert severity(run(good(), client={"cpu_s": 1.0}), "core_saturated") is None


@pytest.mark.parametrize(
    ("stamps", "kind", "lag_ms", "expected"),
    [
        ("kernel", "closed", 80, "note"),
        ("kernel", "open", 80, "doubtful"),
        ("user", "closed", 80, "invalid"),
        ("user", "open", 2, None),
    ],
)
def test_loop_lag(stamps: str, kind: Any, lag_ms: float, expected: str | None) -> None:
    client = {"stamp_source": stamps, "loop_lag_ms_max": lag_ms}
    load = {"load": Load(kind=kind, request_rate=1.0)}
    whole = run(good(), client=client, plan=load, duration_ns=16 * 10**9)
    assert severity(whole, "loop_lag") == expected


def test_busy_machine() -> None:
    rows = tuple({"machine": {"other_cpu_percent": percent}} for percent in (19.0, 27.0))
    assert severity(run(good(), telemetry=rows), "busy_machine") == "doubtful"
    calm = ({"machine": {"other_cpu_percent": 12.0}}, {"gpu": {"power_w": 99.0}})
    assert severity(run(good(), telemetry=calm), "busy_machine") is None


def test_reopened_connections() -> None:
    assert severity(run(good(reopened=True)), "reopened_connections") == "note"
    assert severity(run(good()), "reopened_connections") is None


def test_user_stamps() -> None:
    assert severity(run(good(stamps="user")), "user_stamps") == "note"
    assert severity(imported(records=good(stamps="user")), "user_stamps") is None


@pytest.mark.parametrize(
    ("transport", "streams", "expected"),
    [("wire", 5, None), ("httpx", 1, "note"), ("openai", 4, "note"), ("httpx", 5, "doubtful")],
)
def test_not_the_instrument(transport: str, streams: int, expected: str | None) -> None:
    records = [answer(i, gaps=(20,) * 50, sent=i) for i in range(streams)]
    records += [answer(i, gaps=(20,) * 50, sent=9000 + 1500 * i) for i in range(streams, 8)]
    found = doubts(run(records, client={"transport": transport})).get("not_the_instrument")
    assert (found.severity if found else None) == expected
    assert found is None or f"--transport {transport}" in found.message


@pytest.mark.parametrize(
    ("ttft_ms", "gap_ms", "said"),
    [
        (5.1, 0.0, "measured TTFT (50.00 ms)"),
        (-5.1, 0.0, "measured TTFT (50.00 ms)"),
        (4.9, 1.9, None),
        (0.0, 2.1, "measured p99 gap (20.00 ms)"),
    ],
)
def test_calibration_error(ttft_ms: float, gap_ms: float, said: str | None) -> None:
    calibration = Calibration(
        streams=1,
        events=1000,
        events_per_s=50.0,
        ttft_error_mean_ms=0.1,
        ttft_error_p99_ms=ttft_ms,
        gap_error_p99_ms=gap_ms,
        gap_p99_difference_ms=0.0,
        merged_events=0,
    )
    found = doubts(run(good(), client={"calibration": calibration})).get("calibration_error")
    assert (found.severity if found else None) == ("doubtful" if said else None)
    assert found is None or said is None or said in found.message


@pytest.mark.parametrize(
    ("carried", "server_slower", "expected"),
    [(4787.0, 0.0, None), (975.0, 3.9, "note"), (975.0, 0.1, "doubtful")],
)
def test_calibration_load(carried: float, server_slower: float, expected: str | None) -> None:
    calibration = Calibration(
        streams=1,
        events=1950,
        events_per_s=carried,
        ttft_error_mean_ms=0.1,
        ttft_error_p99_ms=0.1,
        gap_error_p99_ms=0.1,
        gap_p99_difference_ms=0.0,
        merged_events=0,
        planned_events_per_s=4787.0,
        server_slower=server_slower,
    )
    found = doubts(run(good(), client={"calibration": calibration})).get("calibration_load")
    assert (found.severity if found else None) == expected
    assert found is None or "only 975 of the planned 4,787 events/s" in found.message


def test_of_few_values_the_largest_own_error_counts() -> None:
    calibration = Calibration(
        streams=1,
        events=50,
        events_per_s=50.0,
        ttft_error_mean_ms=0.1,
        ttft_error_p99_ms=None,
        ttft_error_max_ms=5.1,
        gap_error_p99_ms=None,
        gap_error_max_ms=1.9,
        gap_p99_difference_ms=None,
        merged_events=0,
    )
    found = doubts(run(good(), client={"calibration": calibration}))["calibration_error"]
    assert "(5.10 ms at most)" in found.message


def test_another_tools_run_has_no_client_of_ours() -> None:
    found = doubts(imported(records=good(events=Events(), reads=0, stamps="user")))
    assert set(found) <= {"unsupported_percentile"}
