"""Doubts about a run as a whole: each provoked, and left alone."""

from typing import Any

import pytest

from bench_client.measure.summary import summarize
from bench_client.records import Events, Load, RequestRecord, Run, Sampling

from .doubting import doubts, good, severity
from .runs import answer, failed, imported, run, told


def test_a_good_run_is_valid() -> None:
    found = summarize(run(good()))
    assert [doubt.code for doubt in found.doubts] == ["unsupported_percentile"]
    assert found.verdict == "valid"


def test_failed_requests_come_first() -> None:
    found = summarize(run([*good(), failed(10, "reset"), failed(11, "stall", reopened=True)]))
    assert found.verdict == "invalid"
    assert found.doubts[0].code == "failed_requests"
    assert found.doubts[0].message.startswith("2 of 12 requests failed (reset 1, stall 1)")


def test_empty_run() -> None:
    found = doubts(run([]))
    assert found["empty_run"].severity == "invalid"
    assert len(found) == 1


@pytest.mark.parametrize(
    ("ended", "missing", "expected"),
    [
        ("interrupted", 0, "doubtful"),
        ("aborted", 0, "invalid"),
        (None, 3, "doubtful"),
        (None, 0, None),
        ("complete", 3, "doubtful"),  # another arm ended the experiment before the last repeats
        ("complete", 0, None),
    ],
)
def test_interrupted(ended: Any, missing: int, expected: str | None) -> None:
    records = good()
    whole = run(records, ended=ended)
    whole = Run(header=whole.header, records=whole.records[: len(records) - missing])
    assert severity(whole, "interrupted") == expected


def test_short_run() -> None:
    assert severity(run(good()[:4]), "short_run") == "doubtful"
    assert severity(run([answer(i, sent=500 * i) for i in range(10)]), "short_run") == "doubtful"
    assert severity(run(good()), "short_run") is None
    assert severity(imported({"tps_decode": (1.0, 2.0, 3.0, 4.0, 5.0)}), "short_run") is None


def test_how_long_another_tool_decoded_may_be_unknown() -> None:
    untold = good(first_token_ns=None, last_token_ns=None, events=Events())
    assert severity(imported(records=untold), "short_run") is None
    told = [answer(i, sent=500 * i) for i in range(10)]
    assert severity(imported(records=told), "short_run") == "doubtful"


def test_short_run_names_what_is_lacking() -> None:
    def said(records: list[RequestRecord]) -> str:
        return doubts(run(records))["short_run"].message

    assert "only 4 requests: 5 requests are" in said(
        [answer(i, gaps=(1500,), sent=2000 * i) for i in range(4)]
    )
    assert "only 0.6 s of decoding: 5 s of" in said([answer(i, sent=500 * i) for i in range(10)])
    both = said([answer(i, sent=500 * i) for i in range(2)])
    assert "only 2 requests and 0.1 s of decoding: 5 requests and 5 s of decoding" in both


@pytest.mark.parametrize(("slots", "expected"), [(10, None), (11, "doubtful"), (50, "doubtful")])
def test_fewer_requests_than_slots(slots: int, expected: str | None) -> None:
    load = Load(kind="closed", concurrency=slots)
    assert severity(run(good(), plan={"load": load}), "fewer_requests_than_slots") == expected


def test_unsupported_percentile() -> None:
    assert "cannot support p95, p99" in doubts(run(good()))["unsupported_percentile"].message
    many = [answer(i, gaps=(50, 50), sent=200 * i) for i in range(100)]
    assert severity(run(many), "unsupported_percentile") is None


def test_unknown_token_counts() -> None:
    records = [*good()[1:], answer(0, gaps=(20,), tokens=(1, None), sent=20000)]
    assert severity(run(records), "unknown_token_counts") == "doubtful"
    assert severity(run(good(output_tokens=None)), "unknown_token_counts") == "doubtful"


def test_estimated_token_counts() -> None:
    spread = run(good(token_count_source="final_usage"))
    assert severity(spread, "estimated_token_counts") == "note"
    assert severity(spread, "unknown_token_counts") is None
    assert severity(run(good(token_count_source="usage_delta")), "estimated_token_counts") is None


@pytest.mark.parametrize(("slower", "expected"), [(1.01, None), (1.05, "note"), (1.2, "doubtful")])
def test_repeats_differ(slower: float, expected: str | None) -> None:
    records = [
        answer(i, gaps=(20 * (slower if repeat else 1),) * 50, repeat=repeat, sent=2000 * i)
        for repeat in range(2)
        for i in range(5)
    ]
    assert severity(run(records), "repeats_differ") == expected


def sampled(
    step_ms: float, accept: int, temperature: float = 0.6, untold: int | None = None
) -> Run:
    """Two repeats of speculation: 20 ms and 4 tokens a step, then as given."""
    records = [
        answer(
            i,
            gaps=(gap,) * 25,
            tokens=(1, *(None if i == untold else tokens,) * 25),
            sent=1000 * i,
            repeat=repeat,
            accept=None if i == untold else told(None, 25),
            output_tokens=1 + 25 * tokens,
        )
        for repeat, (gap, tokens) in enumerate(((20.0, 4), (step_ms, accept)))
        for i in range(5)
    ]
    server = {"speculative": {"num_steps": 5}}
    return run(records, server=server, plan={"sampling": Sampling(temperature=temperature)})


@pytest.mark.parametrize("accept", [3, 5])
def test_sampled_accept_lengths_are_no_trouble_of_the_machine(accept: int) -> None:
    found = doubts(sampled(20.1, accept))["repeats_differ"]
    assert found.severity == "note"
    assert "and the time of a step by 0.4%: it is the accept lengths of sampled" in found.message
    assert "--temperature 0" in found.message
    assert "heat" not in found.message


@pytest.mark.parametrize(
    "whole",
    [
        sampled(21.0, 3),  # the steps differ too
        sampled(23.0, 4),
        sampled(20.1, 3, temperature=0),  # such answers do not vary
        sampled(20.1, 3, untold=2),  # whose steps may be what differs
    ],
)
def test_repeats_that_differ_for_another_reason(whole: Run) -> None:
    found = doubts(whole)["repeats_differ"]
    assert found.severity == "doubtful"
    assert "look for other load, clocks or heat" in found.message


def test_what_an_interruption_cut_off_is_no_failed_request() -> None:
    cut = failed(10, "interrupted")
    assert severity(run([*good(), cut]), "failed_requests") is None
    assert severity(run([*good(), cut, failed(11, "reset")]), "failed_requests") == "invalid"


@pytest.mark.parametrize("ended", ["interrupted", None])
def test_an_interrupted_run_without_one_answer_is_invalid(ended: Any) -> None:
    cut = [failed(i, "interrupted") for i in range(2)]
    assert (
        severity(
            run(cut, ended=ended, plan={"requests": run(good()).header.plan.requests}),
            ("interrupted"),
        )
        == "invalid"
    )


def test_rate_limited() -> None:
    whole = good()
    whole[3] = answer(
        3, gaps=(20,) * 50, sent=4500, scheduled_ns=1_500_000_000, rate_limited=2, ttft=50
    )
    found = summarize(run(whole))
    doubt = next(doubt for doubt in found.doubts if doubt.code == "rate_limited")
    assert doubt.severity == "doubtful"
    assert "429 2 times to 1 of 10 requests, which waited 3.0 s in all" in doubt.message
    assert found.requests.rate_limited == 2
    assert found.ttft_ms.max == 50
    assert severity(run(good()), "rate_limited") is None


@pytest.mark.parametrize(
    ("lengths", "ignore_eos", "expected"),
    [
        ((3, 60, 3, 60), False, "note"),
        ((3, 60, 3, 60), True, None),  # each prompt's own limit, as asked for
        ((40, 60, 40, 60), False, None),
        ((60,), False, None),
    ],
)
def test_unequal_output_lengths(
    lengths: tuple[int, ...], ignore_eos: bool, expected: str | None
) -> None:
    records = [answer(i, gaps=(50,) * (n - 1), sent=4000 * i) for i, n in enumerate(lengths)]
    sampling = Sampling(ignore_eos=ignore_eos)
    found = doubts(run(records, plan={"sampling": sampling})).get("unequal_output_lengths")
    assert (found.severity if found else None) == expected
    assert found is None or "answers have 3 to 60 tokens (sd 104% of the mean)" in found.message
