"""Instants to figures, by hand and by property."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_client.measure.summary import summarize
from bench_client.measure.timeline import (
    chunk_gaps_ms,
    concurrency,
    decode_tokens,
    duration_s,
    itl_ms,
    request_figures,
    windows,
)
from bench_client.records import Events, Load

from .runs import MS, answer, failed, imported, run


def test_one_request_by_hand() -> None:
    figures = request_figures(
        answer(gaps=(20, 30), tokens=(1, 4, 3), sent=10, ttft=50, scheduled_ns=4 * MS)
    )
    assert figures.ttft_ms == 50
    assert figures.e2e_ms == 100
    assert figures.queue_ms == 6
    assert figures.decode_ms == 50
    assert figures.tpot_ms == pytest.approx(50 / 7)
    assert figures.tps_e2e == 80  # 8 tokens in 100 ms
    assert figures.tps_decode == 140  # 7 tokens in 50 ms
    assert figures.ttft_from_schedule_ms == 56
    assert figures.e2e_from_schedule_ms == 106


def test_tokens_of_the_first_event_are_not_decoded() -> None:
    figures = request_figures(answer(gaps=(20,), tokens=(3, 2)))
    assert figures.tps_decode == 100
    assert figures.tpot_ms == 5  # over n - 1 = 4


def test_one_token_has_no_decode_rate() -> None:
    figures = request_figures(answer(gaps=()))
    assert figures.tps_e2e == 20
    assert figures.tps_decode is None
    assert figures.tpot_ms is None
    assert figures.decode_ms == 0


def test_no_time_gives_no_rate() -> None:
    figures = request_figures(answer(gaps=(0,), ttft=0))
    assert figures.tps_e2e is None
    assert figures.tps_decode is None
    assert figures.e2e_ms == 0


def test_nothing_is_made_up_of_a_failed_request() -> None:
    figures = request_figures(failed())
    assert figures.queue_ms == 0
    assert (figures.ttft_ms, figures.e2e_ms, figures.tps_e2e, figures.tpot_ms) == (None,) * 4


def test_decode_tokens_without_events_leave_one_for_the_first() -> None:
    assert decode_tokens(answer(events=Events(), output_tokens=9)) == 8
    assert decode_tokens(answer(events=Events(), output_tokens=None)) is None


def test_decode_tokens_with_an_unknown_event() -> None:
    assert decode_tokens(answer(tokens=(2, None, 1, 1), output_tokens=9)) == 7
    assert decode_tokens(answer(tokens=(None, 1, 1, 1), output_tokens=9)) == 3
    assert decode_tokens(answer(tokens=(None, None, 1, 1), output_tokens=9)) is None


def test_a_gap_is_spread_over_its_tokens() -> None:
    assert itl_ms(answer(gaps=(20, 30), tokens=(1, 4, 3))).tolist() == [5] * 4 + [10] * 3


def test_an_event_of_no_token_passes_its_gap_on() -> None:
    record = answer(gaps=(20, 30, 10), tokens=(1, 0, 0, 2))
    assert itl_ms(record).tolist() == [30, 30]
    assert chunk_gaps_ms(record).tolist() == [20, 30, 10]


def test_an_event_of_unknown_tokens_yields_no_itl() -> None:
    record = answer(gaps=(20, 30, 10), tokens=(1, 2, None, 2))
    assert itl_ms(record).tolist() == [10, 10, 5, 5]
    assert len(chunk_gaps_ms(record)) == 3


def test_lone_and_missing_events_have_no_gaps() -> None:
    for record in (answer(gaps=()), answer(events=Events())):
        assert not len(itl_ms(record))
        assert not len(chunk_gaps_ms(record))


@given(
    st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 40)), min_size=1, max_size=60),
    st.integers(1, 10**12),
)
@settings(deadline=None)
def test_itl_keeps_all_tokens_and_all_time(steps: list[tuple[int, int]], last: int) -> None:
    steps = [*steps, (last, 1)]  # a trailing event of no token would keep its gap to itself
    at = np.cumsum([0, *(gap for gap, _ in steps)])
    tokens = (1, *(count for _, count in steps))
    record = answer(events=Events(tuple(map(int, at)), tokens), output_tokens=sum(tokens))
    spread = itl_ms(record)
    assert len(spread) == sum(tokens[1:]) == decode_tokens(record)
    assert spread.sum() == pytest.approx(at[-1] / MS, rel=1e-6, abs=1e-6)


def test_concurrency_by_hand() -> None:
    # Three requests of 100, 50 and 50 ms; the third begins as the second ends.
    records = [
        answer(0, gaps=(50,), sent=0, ttft=50),
        answer(1, gaps=(25,), sent=0, ttft=25),
        answer(2, gaps=(10,), sent=50, ttft=40),
    ]
    found = concurrency(records, 0.1)
    assert found.peak == 2
    assert found.mean == pytest.approx(2.0)
    assert found.decoding_mean == pytest.approx(0.85)


def test_a_failed_request_is_in_flight_too() -> None:
    found = concurrency([answer(0, gaps=(50,)), failed(1, done_ns=100 * MS)], 0.1)
    assert found.peak == 2
    assert found.mean == pytest.approx(2.0)


def test_requests_without_end_or_duration() -> None:
    found = concurrency([answer(sent_ns=None), answer(1, last_token_ns=None, done_ns=None)], None)
    assert (found.mean, found.peak, found.decoding_mean) == (None, 1, None)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=1, max_size=30))
@settings(deadline=None)
def test_peak_is_the_most_open_at_any_instant(spans: list[tuple[int, int]]) -> None:
    records = [
        answer(i, sent_ns=begin, done_ns=begin + length) for i, (begin, length) in enumerate(spans)
    ]
    at_once = max(sum(b <= t < b + n for b, n in spans) for t in range(101))
    assert concurrency(records, 1.0).peak == at_once


def test_duration_is_first_sent_to_last_done() -> None:
    records = [answer(0, sent=10), answer(1, sent=200, done_ns=400 * MS)]
    assert duration_s(run(records, duration_ns=10**10)) == pytest.approx(0.39)


def test_what_other_arms_take_between_repeats_is_no_part_of_the_window() -> None:
    first = [answer(0), answer(1, sent=60)]  # overlapping: 0 to 170 ms
    second = [answer(0, sent=160, repeat=1)]  # begins before that ends: to 270
    third = [answer(0, sent=9_000, repeat=2), answer(1, sent=9_200, repeat=2)]  # 310 ms
    whole = run([*first, *second, *third])
    assert windows(whole.records) == [(0, 270 * MS), (9_000 * MS, 9_310 * MS)]
    assert duration_s(whole) == pytest.approx(0.58)
    assert summarize(whole).throughput.output_tok_per_s == pytest.approx(5 * 4 / 0.58)


def test_duration_of_an_open_loop_is_the_whole_window() -> None:
    load = {"load": Load(kind="open", request_rate=1.0)}
    assert duration_s(run([answer()], duration_ns=2 * 10**9, plan=load)) == 2.0
    assert duration_s(run([answer()], plan=load)) == pytest.approx(0.11)


def test_duration_is_unknown_where_starts_are() -> None:
    assert duration_s(imported(records=[answer(0), answer(1)])) is None
    assert duration_s(imported(records=[answer(0), answer(1, sent=100)])) == pytest.approx(0.21)
    assert duration_s(run([])) is None


def test_a_clock_that_steps_back_makes_no_negative_time() -> None:
    back = answer(0, sent=9000, done_ns=3000 * MS, last_token_ns=2900 * MS)
    held = concurrency([back, answer(1, sent=9000)], 1.0)
    assert held.mean == pytest.approx(0.11)  # of the other alone
    assert held.decoding_mean == pytest.approx(0.06)
    assert held.peak == 2
    stepped = run([back], duration_ns=-5 * 10**9)
    assert summarize(stepped).concurrency.mean is None
    opened = run([back], duration_ns=-5 * 10**9, plan={"load": Load(kind="open", request_rate=1)})
    assert duration_s(opened) == 0
    assert summarize(opened).concurrency.mean is None
