"""The client against the embedded engine: at the load that was asked for, or it says so."""

import json

import pytest

from bench_client.run.calibrate import CalibrationLoad, calibrate, observed_load
from tests.cli.helpers import bench_client
from tests.measure.runs import answer


def test_a_fast_stream_is_imitated_at_its_own_rate() -> None:
    """As of a draft that yields many tokens on a small model: 4,800 events/s of one stream."""
    records = [answer(i, gaps=(0.2,) * 50, sent=100 * i) for i in range(3)]
    load = observed_load(records, streams=1, workers=2)
    assert (load.gap_ms, load.workers) == (pytest.approx(0.2), 1)
    found = calibrate(CalibrationLoad(streams=1, gap_ms=load.gap_ms, seconds=0.5))
    assert found
    assert found.planned_events_per_s == pytest.approx(5000)
    assert found.events_per_s > 2500  # a busy machine may be late


def test_many_short_answers_give_ttft_a_p99() -> None:
    found = calibrate(CalibrationLoad(streams=2, gap_ms=5, seconds=1.0))
    assert found
    assert found.answers == 100
    assert found.ttft_error_p99_ms is not None
    assert found.ttft_error_p99_ms > found.ttft_error_mean_ms
    assert found.streams == 2


def test_few_answers_have_no_p99() -> None:
    found = calibrate(CalibrationLoad(streams=1, gap_ms=40, seconds=0.5))
    assert found
    assert 4 <= (found.answers or 0) <= 8
    assert (found.ttft_error_p99_ms, found.gap_error_p99_ms) == (None, None)
    assert found.ttft_error_max_ms is not None
    assert found.ttft_error_max_ms >= abs(found.ttft_error_mean_ms)


def test_a_load_without_gaps_is_not_known() -> None:
    load = observed_load([answer(gaps=())], streams=1, workers=1)
    assert load.gap_ms is None
    assert load.pace.events_per_s is None


def test_a_load_that_cannot_be_carried_is_an_error() -> None:
    given = ("--concurrency", 20, "--gap-ms", 0.02, "--seconds", 0.5, "--json")
    done = bench_client("calibrate", *given)
    assert done.returncode == 1, done.stdout
    found = json.loads(done.stdout)
    assert found["planned_events_per_s"] == 1_000_000
    assert f"only {found['events_per_s']:,.0f} of the planned 1,000,000 events/s" in done.stderr
    assert "the embedded engine could not send faster on this machine" in done.stderr


def test_what_was_carried_is_told() -> None:
    done = bench_client("calibrate", "--gap-ms", 50, "--seconds", 1)
    assert done.returncode == 0, done.stderr
    assert "1 streams, 20 events/s planned, " in done.stdout
    assert "TTFT error   mean" in done.stdout
    assert ", max " in done.stdout
    assert "p99" not in done.stdout
