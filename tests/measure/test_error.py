"""The client's own error from records and a send log, and whether the load was carried."""

import pytest

from bench_client.measure.error import Pace, Sent, client_error, not_carried, server_limited
from bench_client.records import Calibration

from .runs import MS, answer

PACE = Pace(ttft_ms=20, gap_ms=20, events_per_s=50.0)


def calibrated(
    answers: int,
    late_ms: float = 0.0,
    client_ms: float = 0.0,
    server_ms: float = 0.0,
    pace: Pace = PACE,
) -> Calibration:
    """Answers of two events, one after another. The server sends the second `server_ms` later than
    it was to, the client sees the first `late_ms` after it was sent and the second another
    `client_ms` later.
    """
    gap_ms = 20 + server_ms + client_ms
    records = [answer(i, gaps=(gap_ms,), sent=1000 * i, ttft=20 + late_ms) for i in range(answers)]
    log = {}
    for record in records:
        received = record.sent_ns or 0
        first = received + 20 * MS
        events = ((first, 1), (first + round((20 + server_ms) * MS), 1))
        log[record.id] = Sent(id=record.id, received_ns=received, events=events)
    found = client_error(records, log, pace, cpu_s=None)
    assert found
    return found


def test_many_answers_support_a_p99() -> None:
    found = calibrated(100, late_ms=0.5)
    assert found.answers == 100
    assert found.ttft_error_mean_ms == pytest.approx(0.5)
    assert found.ttft_error_p99_ms == pytest.approx(0.5)
    assert found.gap_error_p99_ms == 0
    assert found.gap_p99_difference_ms == 0


def test_few_answers_have_a_largest_error_and_no_p99() -> None:
    found = calibrated(99, late_ms=0.5)
    assert (found.ttft_error_p99_ms, found.gap_error_p99_ms) == (None, None)
    assert found.gap_p99_difference_ms is None
    assert found.ttft_error_max_ms == pytest.approx(0.5)
    assert found.gap_error_max_ms == 0


@pytest.mark.parametrize("late_ms", [0, 30])
def test_a_load_that_was_carried(late_ms: float) -> None:
    """However late the client is, as long as it is late alike."""
    found = calibrated(100, late_ms=late_ms)
    assert found.events_per_s == pytest.approx(50)
    assert found.server_slower == 0
    assert not_carried(found) is None


def test_a_load_that_the_engine_did_not_carry() -> None:
    found = calibrated(100, server_ms=40)
    assert found.events_per_s == pytest.approx(50 / 3, abs=0.05)
    assert found.server_slower == 2
    assert server_limited(found)
    said = not_carried(found) or ""
    assert "only 17 of the planned 50 events/s were carried" in said
    assert "the embedded engine could not send faster" in said


def test_a_load_that_the_client_did_not_carry() -> None:
    found = calibrated(100, client_ms=40)
    assert found.server_slower == 0
    assert not server_limited(found)
    assert "because the client could not keep up" in (not_carried(found) or "")


def test_of_a_load_that_is_not_known_nothing_is_said() -> None:
    assert not_carried(calibrated(100, server_ms=40, pace=Pace(ttft_ms=20, gap_ms=20))) is None
