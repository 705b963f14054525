"""A run to its summary, of our own and of other tools."""

import time
from typing import Any

import msgspec
import pytest

from bench_client.measure.figures import Summary
from bench_client.measure.summary import summarize
from bench_client.records import Calibration, Events, Load

from .arms import arm
from .published import SGLANG, SGLANG_ACCEPT, SGLANG_EAGLE3
from .runs import MS, answer, failed, imported, run, sha, told


def test_a_run_by_hand() -> None:
    found = summarize(
        run(
            [
                answer(0, gaps=(20, 20), sent=0, ttft=60),
                answer(1, gaps=(30, 30, 30), sent=100, ttft=60),
                failed(2, "http_500", sent=250, done_ns=500 * MS),
            ]
        )
    )
    assert (found.requests.ok, found.requests.failed) == (2, 1)
    assert found.requests.failures == {"http_500": 1}
    assert found.duration_s == 0.5
    assert (found.input_tokens, found.output_tokens) == (20, 7)
    assert found.throughput.request_per_s == 4
    assert found.throughput.output_tok_per_s == 14
    assert found.throughput.total_tok_per_s == 54
    assert found.concurrency.mean == pytest.approx(1.0)
    assert found.ttft_ms.mean == 60
    assert found.e2e_ms.mean == 125
    assert (found.itl_ms.n, found.itl_ms.mean) == (5, 26)
    assert found.tps_e2e.mean == pytest.approx((30 + 4 / 0.15) / 2)
    assert found.tps_e2e.pooled == pytest.approx(7 / 0.25)
    assert found.tps_decode.mean == pytest.approx((50 + 100 / 3) / 2)
    assert found.step_ms.mean == 25
    assert found.speculation is None
    assert found.ttft_from_schedule_ms is None
    assert found.verdict == "invalid"


def test_rows_are_the_requests_in_order() -> None:
    records = [
        answer(1, tokens=(1, 2, 2, 2), accept=told(6, 3)),
        answer(0, tokens=(1, 3, 3, 3), accept=told(9, 3)),
        failed(2),
    ]
    rows = summarize(run(records)).rows
    assert [(row.prompt_index, row.prompt_id, row.language) for row in rows] == [
        (0, "p0", "en"),
        (1, "p1", "zh"),
        (2, "p2", "en"),
    ]
    assert [row.accept_length for row in rows] == [3, 2, None]
    assert [row.step_ms for row in rows] == [20, 20, None]
    assert [row.outcome for row in rows] == ["ok", "ok", "failed"]
    assert [row.verify_steps for row in rows] == [3, 3, None]
    assert [row.prompt_sha256 for row in rows] == [sha(0), sha(1), sha(2)]


def test_accept_lengths_by_request_weigh_the_same() -> None:
    records = [
        answer(i, gaps=(40,) * n, tokens=(1, *([50 // n] * n)), accept=told(50, n), repeat=r)
        for r in range(2)
        for i, n in enumerate((10, 25, 50) * 3)
    ]
    found = summarize(run(records)).speculation
    assert found is not None
    assert found.accept_length == pytest.approx(150 / 85)
    own = found.accept_length_per_request
    assert own is not None
    assert (own.n, own.mean, own.p50) == (18, pytest.approx(8 / 3), 2)
    assert (own.min, own.max) == (1, 5)
    assert own.sd == pytest.approx(1.75, abs=0.01)
    once = summarize(run(records[:9])).speculation
    assert once is not None
    assert once.accept_length_per_request is not None
    assert own.ci95 == pytest.approx(once.accept_length_per_request.ci95)  # repeats are one unit


def test_no_request_with_an_accept_length_of_its_own() -> None:
    whole = run([answer(tokens=(1, None, None, None))], server={"speculative": {"method": "mtp"}})
    found = summarize(whole, 2.0).speculation
    assert found is not None
    assert found.accept_length == 2
    assert found.accept_length_per_request is None


def test_an_open_loop_has_latencies_from_the_schedule() -> None:
    load = Load(kind="open", request_rate=2.0)
    record = answer(gaps=(20,), ttft=50, scheduled_ns=-30 * MS)
    found = summarize(run([record], plan={"load": load}, duration_ns=10**9))
    assert found.ttft_from_schedule_ms is not None
    assert found.e2e_from_schedule_ms is not None
    assert (found.queue_ms.mean, found.ttft_from_schedule_ms.mean) == (30, 80)
    assert found.e2e_from_schedule_ms.mean == 100
    assert found.duration_s == 1


def test_unknown_counts_make_totals_unknown_not_small() -> None:
    found = summarize(run([answer(0), answer(1, tokens=(None,) * 4)]))
    assert found.output_tokens is None
    assert found.throughput.output_tok_per_s is None
    assert found.throughput.request_per_s is not None
    assert found.tps_decode.n == 1
    assert found.chunk_gap_ms.n == 6
    assert found.itl_ms.n == 3


@pytest.mark.parametrize("records", [[], [failed(0), failed(1)]])
def test_nothing_to_measure(records: list[Any]) -> None:
    found = summarize(run(records))
    assert found.verdict == "invalid"
    assert found.requests.ok == 0
    assert found.ttft_ms.n == 0
    assert found.itl_ms.n == 0
    assert found.ttft_ms.mean is None
    assert found.tps_e2e.pooled is None
    assert found.speculation is None


def test_repeats_of_a_prompt_are_one_unit() -> None:
    once = [answer(i, gaps=(20 + i,) * 3) for i in range(9)]
    again = [msgspec.structs.replace(each, repeat=1, id=f"{each.id}b") for each in once]
    single, double = summarize(run(once)), summarize(run([*once, *again]))
    assert double.tps_decode.n == 18
    assert double.tps_decode.ci95 == pytest.approx(single.tps_decode.ci95)
    assert double.itl_ms.ci95 == pytest.approx(single.itl_ms.ci95)


def test_a_long_answer_weighs_as_its_tokens_do() -> None:
    records = [answer(i, gaps=(20,) * (10 + 40 * i)) for i in range(4)]
    assert summarize(run(records)).itl_ms.ci95 == pytest.approx((20, 20))


def test_a_place_in_a_chain_is_one_unit_though_its_text_varies() -> None:
    once = [answer(i, gaps=(20 + i,) * 3) for i in range(9)]
    again = [answer(i, gaps=(20 + i,) * 3, repeat=1, prompt_sha256=f"other {i}") for i in range(9)]
    chained = summarize(run([*once, *again], plan={"chained": True})).tps_decode
    assert chained.ci95 == pytest.approx(summarize(run(once)).tps_decode.ci95)


def test_one_prompt_repeated_has_the_repeat_as_its_unit() -> None:
    records = [answer(0, gaps=(20 + i,) * 3, repeat=i) for i in range(4)]
    found = summarize(run(records)).tps_decode
    assert found.ci95 is not None
    two_prompts = [answer(i % 2, gaps=(20 + i,) * 3, repeat=i // 2) for i in range(4)]
    assert summarize(run(two_prompts)).tps_decode.ci95 is None


def test_it_is_json_and_back() -> None:
    found = summarize(run([answer(i, tokens=(1, 2, 2, 2), accept=told(6, 3)) for i in range(4)]))
    assert msgspec.json.decode(msgspec.json.encode(found), type=Summary) == found


def test_the_same_run_gives_the_same_summary() -> None:
    whole = run([answer(i, gaps=(20 + i % 5, 30, 25)) for i in range(11)])
    assert summarize(whole) == summarize(whole)


def test_eleven_prompts_take_less_than_a_second() -> None:
    tokens = (1, *([2, 3, 4] * 200))
    records = [
        answer(i, gaps=(40 + i % 7,) * 600, tokens=tokens, sent=30_000 * i) for i in range(11)
    ]
    whole = run(records, server={"speculative": {"num_steps": 5}})
    summarize(whole)  # imports scipy
    before = time.process_time()
    summarize(whole)
    assert time.process_time() - before < 1


def test_telemetry_is_folded_under_its_own_names() -> None:
    rows = (
        {"at_ns": 1, "gpu": [{"power_w": 100, "name": "L40"}], "client": {"cpu": 1.0, "ok": True}},
        {"at_ns": 2, "gpu": [{"power_w": 200}], "client": {"cpu": None}},
    )
    assert summarize(run([answer()], telemetry=rows)).telemetry == {
        "gpu": {"0": {"power_w": {"mean": 150, "min": 100, "max": 200}}},
        "client": {"cpu": {"mean": 1, "min": 1, "max": 1}},
    }


def test_calibration_is_the_clients() -> None:
    calibration = Calibration(
        streams=1,
        events=1,
        events_per_s=1,
        ttft_error_mean_ms=0,
        ttft_error_p99_ms=0,
        gap_error_p99_ms=0,
        gap_p99_difference_ms=0,
        merged_events=0,
    )
    found = summarize(run([answer()], client={"calibration": calibration}))
    assert found.calibration == calibration


def test_values_of_another_tool() -> None:
    """SGLang's log lines: decode rate and accept length of the same 40 steps."""
    found = summarize(imported({"tps_decode": SGLANG_EAGLE3, "accept_length": SGLANG_ACCEPT}))
    assert found.requests.ok == 11
    assert found.tps_decode.mean == pytest.approx(89.71, abs=0.005)
    assert found.tps_decode.sd == pytest.approx(12.32, abs=0.005)
    assert found.speculation is not None
    assert found.speculation.accept_length == pytest.approx(3.87, abs=0.005)
    assert found.speculation.accept_length_sources == {
        "log": pytest.approx(found.speculation.accept_length)
    }
    assert found.step_ms.min == pytest.approx(43.0, abs=0.05)
    assert found.step_ms.max == pytest.approx(43.4, abs=0.05)
    assert found.speculation.step_ms == pytest.approx(found.step_ms.mean)
    assert (found.ttft_ms.n, found.duration_s, found.concurrency.mean) == (0, None, None)
    own = found.speculation.accept_length_per_request
    assert own is not None
    assert (own.n, own.mean) == (11, pytest.approx(found.speculation.accept_length))
    assert own.sd == pytest.approx(0.53, abs=0.005)
    assert own.ci95 is not None
    assert found.speculation.by_answer_position == ()
    assert found.speculation.by_answer_position_note is not None


def test_plain_values_of_another_tool_have_a_token_as_their_step() -> None:
    found = summarize(imported({"tps_decode": SGLANG}))
    assert found.speculation is None
    assert found.step_ms.mean == pytest.approx(22.73, abs=0.01)


def test_aggregates_of_another_tool() -> None:
    """Little's law gives the decoding concurrency that the tool did not print."""
    found = summarize(
        imported(
            figures={
                "requests.ok": 500.0,
                "duration_s": 260.11,
                "input_tokens": 153555.0,
                "output_tokens": 91009.0,
                "throughput.output_tok_per_s": 349.88,
                "concurrency.mean": 222.31,
                "speculation.accept_length": 2.80,
                "e2e_ms.mean": 115649.44,
                "ttft_ms.mean": 95819.59,
                "ttft_ms.p99": 197118.52,
                "itl_ms.mean": 109.55,
                "itl_ms.max": None,
            }
        )
    )
    assert found.requests.ok == 500
    assert (found.duration_s, found.output_tokens) == (260.11, 91009)
    assert (found.ttft_ms.n, found.ttft_ms.mean, found.ttft_ms.p99) == (500, 95819.59, 197118.52)
    assert found.ttft_ms.ci95 is None
    assert found.concurrency.decoding_mean == pytest.approx(38.1, abs=0.05)
    assert found.throughput.output_tok_per_s == 349.88
    assert found.throughput.request_per_s == pytest.approx(1.92, abs=0.005)
    assert found.speculation is not None
    assert found.speculation.accept_length_source == "imported"
    assert "capped_server" in [doubt.code for doubt in found.doubts]
    assert found.tps_decode.n == 0


def test_records_of_another_tool_without_start_times() -> None:
    found = summarize(imported(records=[answer(0, reads=0), answer(1, reads=0)]))
    assert found.ttft_ms.n == 2
    assert (found.queue_ms.n, found.duration_s, found.concurrency.peak) == (0, None, None)
    assert found.rows[0].prompt_id is None


def test_what_another_tool_does_not_say_is_unknown_and_not_0() -> None:
    """A block without E2E, and records that keep neither first token nor waiting."""
    block = summarize(
        imported(figures={"requests.ok": 10.0, "duration_s": 2.0, "ttft_ms.mean": 50.0})
    )
    held = block.concurrency
    assert (held.mean, held.peak, held.decoding_mean) == (None, None, None)
    coarse = [
        answer(i, sent=500 * i, first_token_ns=None, events=Events(), reads=0) for i in (0, 1)
    ]
    kept = summarize(imported(records=coarse))
    assert (kept.concurrency.peak, kept.concurrency.decoding_mean) == (1, None)
    assert kept.queue_ms.n == 0
    waiting = [msgspec.structs.replace(each, scheduled_ns=0) for each in coarse]
    assert summarize(imported(records=waiting)).queue_ms.mean == pytest.approx(250)


def test_an_own_answer_without_tokens_decodes_for_no_time() -> None:
    empty = answer(0, output_tokens=0, first_token_ns=None, last_token_ns=None, events=Events())
    assert summarize(run([empty, answer(1, sent=500)])).concurrency.decoding_mean is not None


def test_means_that_contradict_each_other_give_no_decoding_concurrency() -> None:
    figures: dict[str, float | None] = {
        "requests.ok": 10.0,
        "duration_s": 2.0,
        "ttft_ms.mean": 90.0,
        "e2e_ms.mean": 50.0,
    }
    held = summarize(imported(figures=figures)).concurrency
    assert (held.mean, held.decoding_mean) == (0.25, None)
    told = imported(figures={**figures, "concurrency.decoding_mean": -184.0})
    assert summarize(told).concurrency.decoding_mean is None


def test_the_spread_of_repeats() -> None:
    assert summarize(arm()).repeats is None
    records = [
        answer(i, gaps=(gap,) * 50, repeat=r) for r, gap in enumerate((20, 25)) for i in range(4)
    ]
    found = summarize(run(records)).repeats
    assert found is not None
    assert found.n == 2
    assert found.sd == pytest.approx(10 / 2**0.5)
    assert found.relative_sd == pytest.approx(10 / 2**0.5 / 45)
