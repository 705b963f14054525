"""Accept length by source, step time, and what is no speculation."""

from collections.abc import Sequence
from typing import Any

import pytest

from bench_client.measure.speculation import plain_step_ms, speculation, steps_by_request
from bench_client.records import RequestRecord, Run

from .runs import answer, failed, run, told

DRAFTS = "vllm:spec_decode_num_drafts_total"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
POSITION = 'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{}"}}'
TOKENS = "sglang:generation_tokens_total"
VERIFIED = "sglang:spec_verify_calls_total"
ON = {"speculative": {"method": "eagle3"}}


def counted(records: Sequence[RequestRecord], before: Any, after: Any, **more: Any) -> Run:
    return run(records, server={"counters_before": before, "counters_after": after, **more})


def test_per_request_counts_add_up_before_they_are_divided() -> None:
    records = [
        answer(0, gaps=(30,) * 4, tokens=(1, 2, 2, 2, 2), accept=told(8, 4)),
        answer(1, gaps=(30,), tokens=(1, 3), accept=told(3, 1)),
    ]
    found = speculation(run(records))
    assert found is not None
    assert found.accept_length == pytest.approx(11 / 5)
    assert found.accept_length_source == "per_request"
    assert found.verify_steps == 5
    assert found.step_ms == pytest.approx(30)


def test_tokens_that_the_server_leaves_out_are_all_but_the_first() -> None:
    record = answer(gaps=(30,) * 2, tokens=(1, 2, 4), accept=told(None, 2))
    found = speculation(run([record]))
    assert found is not None
    assert found.accept_length == 3


@pytest.mark.parametrize("tokens", [(3, 2, 4), (2, 3, 4)])
def test_a_first_event_that_holds_a_step_is_not_timed(tokens: tuple[int, ...]) -> None:
    """EAGLE's first token comes out of a step; vLLM may join a step to the prefill's."""
    from_steps = 9 if tokens[0] == 3 else 8
    found = speculation(run([answer(gaps=(30, 30), tokens=tokens, accept=told(from_steps, 3))]))
    assert found is not None
    assert found.verify_steps == 3
    assert found.step_ms == pytest.approx(30)


def test_vllm_counters_of_a_real_server() -> None:
    """vLLM 0.32 on a CPU, one answer of 400 tokens; the server counted from 0."""
    after = {DRAFTS: 156.0, ACCEPTED: 243.0}
    after |= {POSITION.format(i): n for i, n in enumerate((108.0, 75.0, 60.0))}
    record = answer(gaps=(10,) * 156, tokens=(1, *([3] * 87 + [2] * 69)))
    found = speculation(counted([record], dict.fromkeys(after, 0.0), after))
    assert found is not None
    assert found.accept_length == pytest.approx(2.5577, abs=1e-4)
    assert found.accept_length_source == "metrics"
    assert found.verify_steps == 156
    assert found.step_ms == pytest.approx(10)
    assert found.per_position == pytest.approx((108 / 156, 75 / 156, 60 / 156))
    assert found.accept_length_sources["client_events"] == pytest.approx(399 / 156)


def test_sglang_counters_of_a_real_server() -> None:
    """SGLang 0.5.16 with a tree: 600 tokens in 189 events, but 195 verify calls."""
    before, after = {TOKENS: 600.0, VERIFIED: 195.0}, {TOKENS: 1200.0, VERIFIED: 390.0}
    record = answer(gaps=(10,) * 188, tokens=(1, *([4] * 35 + [3] * 153)))
    assert record.output_tokens == 600
    found = speculation(counted([record], before, after))
    assert found is not None
    assert found.accept_length == pytest.approx(3.077, abs=1e-3)
    assert found.accept_length_sources["client_events"] == pytest.approx(599 / 188)
    assert found.step_ms == pytest.approx(1880 / 195)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, {DRAFTS: 5.0, ACCEPTED: 5.0}),
        ({DRAFTS: 5.0, ACCEPTED: 5.0}, None),
        ({DRAFTS: 5.0, ACCEPTED: 5.0}, {DRAFTS: 5.0, ACCEPTED: 5.0}),
        ({DRAFTS: 9.0, ACCEPTED: 9.0}, {DRAFTS: 2.0, ACCEPTED: 1.0}),  # it was restarted
        ({TOKENS: 1.0}, {TOKENS: 9.0}),
        ({TOKENS: 1.0, VERIFIED: 0.0}, {TOKENS: 9.0, VERIFIED: 0.0}),
    ],
)
def test_counters_that_say_nothing(before: Any, after: Any) -> None:
    assert speculation(counted([answer()], before, after)) is None


def test_a_counter_that_appears_within_the_window_began_at_0() -> None:
    found = speculation(counted([answer()], {}, {DRAFTS: 4.0, ACCEPTED: 6.0}))
    assert found is not None
    assert found.accept_length == 2.5


def test_the_best_scoped_source_is_the_headline() -> None:
    metrics = {"counters_before": {}, "counters_after": {DRAFTS: 4.0, ACCEPTED: 6.0}}
    plain = answer(gaps=(30,) * 2, tokens=(1, 2, 2))
    reported = answer(gaps=(30,) * 2, tokens=(1, 2, 2), accept=told(4, 2))

    def headline(record: RequestRecord, log: float | None = None, **parts: Any) -> str | None:
        found = speculation(run([record], server={**ON, **parts}), log)
        return found.accept_length_source if found else None

    assert headline(reported, 2.2, **metrics) == "per_request"
    assert headline(plain, 2.2, **metrics) == "metrics"
    assert headline(plain, 2.2) == "client_events"
    assert headline(answer(tokens=(None,) * 4), 2.2) == "log"
    assert headline(answer(tokens=(None,) * 4)) is None


def test_all_sources_stand_side_by_side() -> None:
    found = speculation(run([answer(tokens=(1, 2, 2, 2))], server=ON), 1.9)
    assert found is not None
    assert found.accept_length_sources == {
        "per_request": None,
        "metrics": None,
        "client_events": 2.0,
        "log": 1.9,
    }


def test_a_plain_server_that_joins_events_does_not_speculate() -> None:
    """SGLang's detokenizer holds text back: 512 tokens came in 477 events from a plain server."""
    record = answer(gaps=(10,) * 476, tokens=(1, *([2] * 35 + [1] * 441)))
    assert record.output_tokens == 512
    joined = run([record], server={"engine": "sglang"})
    assert speculation(joined) is None
    assert plain_step_ms(joined) == pytest.approx(4760 / 511)


def test_an_event_of_more_tokens_than_a_step_yields_is_several_steps() -> None:
    """A chain of 3 drafts gives 4 tokens a step at most."""
    settings = {"speculative": {"num_speculative_tokens": 3}}
    found = speculation(run([answer(gaps=(30, 60), tokens=(1, 4, 7))], server=settings))
    assert found is not None
    assert found.accept_length == pytest.approx(11 / 3)
    assert found.step_ms == pytest.approx(30)
    unknown = speculation(run([answer(gaps=(30, 60), tokens=(1, 4, 7))], server=ON))
    assert unknown is not None
    assert unknown.accept_length == pytest.approx(11 / 2)


def test_events_of_no_token_are_no_steps() -> None:
    found = speculation(run([answer(gaps=(30, 1, 30), tokens=(1, 3, 0, 3))], server=ON))
    assert found is not None
    assert found.accept_length == 3


def test_asked_for_and_seen_in_the_events_is_enough() -> None:
    asked = {"speculative_asked": {"method": "eagle3"}}
    assert speculation(run([answer(tokens=(1, 2, 2, 2))], server=asked)) is not None
    assert speculation(run([answer()], server=asked)) is None


def test_with_failed_requests_the_counted_steps_are_not_all_of_the_answers() -> None:
    records = [answer(gaps=(40,) * 4, tokens=(1, 2, 2, 2, 2)), failed(1)]
    after = {DRAFTS: 10.0, ACCEPTED: 10.0}  # six steps were the failed one's
    found = speculation(counted(records, {}, after))
    assert found is not None
    assert found.accept_length == 2
    assert found.step_ms == pytest.approx(160 / 4)


def test_step_time_by_the_log_alone() -> None:
    record = answer(gaps=(20, 20, 20), tokens=(1, None, None, None), output_tokens=7)
    found = speculation(run([record], server=ON), 2.0)
    assert found is not None
    assert found.step_ms == pytest.approx(20)  # 6 tokens are 3 steps


def test_positions_from_histograms_of_unlike_length() -> None:
    records = [
        answer(0, tokens=(1, 1, 2, 3), accept=told(6, 3, histogram=(1, 1, 1))),
        answer(1, tokens=(1, 1, 1, 1), accept=told(3, 3, histogram=(3,))),
    ]
    found = speculation(run(records))
    assert found is not None
    assert found.per_position == pytest.approx((2 / 6, 1 / 6))


def test_by_language() -> None:
    records = [
        answer(0, tokens=(1, 4, 4, 4), accept=told(12, 3)),
        answer(1, tokens=(1, 2, 1, 1), accept=told(4, 3)),
        answer(2, tokens=(1, 3, 3, 3), accept=told(9, 3)),
    ]
    found = speculation(run(records))
    assert found is not None
    assert found.by_language == {"en": 3.5, "zh": pytest.approx(4 / 3)}
    by_events = speculation(counted(records[1:], {}, {DRAFTS: 6.0, ACCEPTED: 7.0}))
    assert by_events is not None
    assert by_events.by_language["zh"] == pytest.approx(4 / 3)


def test_nothing_but_failures() -> None:
    assert speculation(run([failed()])) is None
    found = speculation(run([failed()], server=ON))
    assert found is not None
    assert (found.accept_length, found.step_ms, found.verify_steps) == (None, None, None)
    assert plain_step_ms(run([failed()])) is None


def test_an_answer_without_a_count_falls_back_on_its_events() -> None:
    """Where the events of those that have one are right; not where they are joined."""
    exact = [answer(0, tokens=(1, 2, 2, 2), accept=told(6, 3)), answer(1, tokens=(1, 2, 2, 2))]
    whole = run(exact, server=ON)
    assert [steps_by_request(whole)(each) for each in exact] == [(6, 3), (6, 3)]
    joined = [
        answer(0, gaps=(20,) * 9, tokens=(1, *[4] * 9), accept=told(36, 18)),
        answer(1, gaps=(20,) * 9, tokens=(1, *[4] * 9)),
    ]
    whole = run(joined, server=ON)
    assert [steps_by_request(whole)(each) for each in joined] == [(36, 18), None]
