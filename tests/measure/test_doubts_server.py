"""Doubts about the server: each provoked, and left alone."""

from collections.abc import Sequence
from typing import Any

import pytest

from bench_client.records import Run, Sampling

from .doubting import doubts, good, joined, severity
from .runs import answer, run, told

DRAFTS = "vllm:spec_decode_num_drafts_total"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
ASKED = {"name": "arm", "argv": ("serve",), "speculative_asked": {"num_speculative_tokens": 3}}


def test_prefix_cache_hits_by_request() -> None:
    assert severity(run(good(cached_tokens=2)), "prefix_cache_hits") == "doubtful"
    assert severity(run(good(cached_tokens=0)), "prefix_cache_hits") is None


def test_an_answer_without_a_count_had_nothing_cached() -> None:
    """Engines leave out a count of zero: a cold repeat, and a warm one."""
    cold, warm = good(cached_tokens=None), good(cached_tokens=10, repeat=1)
    found = doubts(run([*cold, *warm]))["prefix_cache_hits"]
    assert found.message.startswith("50.0% of the input tokens")


@pytest.mark.parametrize(
    ("hits", "queries"),
    [
        ("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"),
        ("sglang:cached_tokens_total", "sglang:prompt_tokens_total"),
    ],
)
def test_prefix_cache_hits_by_counters(hits: str, queries: str) -> None:
    def counting(cached: float) -> Run:
        counters = {"counters_before": {hits: 5.0, queries: 100.0}}
        after = {"counters_after": {hits: 5.0 + cached, queries: 1100.0}}
        return run(good(), server={**counters, **after})

    assert severity(counting(11), "prefix_cache_hits") == "doubtful"
    assert severity(counting(9), "prefix_cache_hits") is None


def test_shared_warmup() -> None:
    planned = run(good()).header.plan.requests
    assert severity(run(good(), plan={"warmup": planned[:1]}), "shared_warmup") == "doubtful"
    unharmed = run(good(cached_tokens=0), plan={"warmup": planned[:1]})
    assert severity(unharmed, "shared_warmup") == "note"
    other = run([answer(99)]).header.plan.requests
    assert severity(run(good(), plan={"warmup": other}), "shared_warmup") is None


def counted(accepted: float, drafts: float = 1000.0) -> dict[str, Any]:
    return {"counters_before": {}, "counters_after": {DRAFTS: drafts, ACCEPTED: accepted}}


def test_accept_sources_disagree() -> None:
    tokens = (1, *([2] * 100))

    def measured(accepted: float, log: float | None = None) -> str | None:
        whole = run(joined(tokens), server=counted(accepted))
        return severity(whole, "accept_sources_disagree", log)

    assert measured(1000) is None
    # Log lines miss the window's ends: they speak only where nothing better scoped does.
    assert measured(1000, log=2.2) is None
    alone = run(joined(tokens), server={"speculative_asked": {"num_steps": 3}})
    assert severity(alone, "accept_sources_disagree", 2.2) == "doubtful"
    assert severity(alone, "accept_sources_disagree", 2.05) is None
    # The client can see fewer steps than there were, where events are joined, but never more.
    assert measured(500) is None
    assert measured(1200) == "doubtful"


def test_short_answers_may_differ_by_a_step_each() -> None:
    """SGLang counts the prefill's token: 7 tokens over 3 steps is 2.33, 6 over 3 is 2."""
    counters = {
        "counters_before": {},
        "counters_after": {
            "sglang:generation_tokens_total": 70.0,
            "sglang:spec_verify_calls_total": 30.0,
        },
    }
    whole = run(joined(accept=told(6, 3)), server=counters)
    assert severity(whole, "accept_sources_disagree") is None


def test_temperature_ignored() -> None:
    def asked(samples: bool | None, **sampling: Any) -> str | None:
        found = run(
            good(), server={"facts": {"samples": samples}}, plan={"sampling": Sampling(**sampling)}
        )
        return severity(found, "temperature_ignored")

    assert asked(samples=False, temperature=0.6) == "doubtful"
    assert asked(samples=False, temperature=0.0) is None
    assert asked(samples=True, temperature=0.6) is None
    assert asked(samples=None, temperature=0.6) is None
    # Requests that bring their own generation settings.
    assert asked(samples=False, temperature=0.6, ignore_eos=True) is None
    own = {"generation_config": '{"do_sample": true}'}
    assert asked(samples=False, temperature=0.6, extra_body=own) is None


def test_plain_arm_speculates() -> None:
    launched = {"argv": ("serve",)}
    assert severity(
        run(joined(), server={**launched, **counted(1000)}), "plain_arm_speculates"
    ) == ("invalid")
    reported = run(good(), server={**launched, "speculative": {"method": "ngram"}})
    assert severity(reported, "plain_arm_speculates") == "invalid"
    assert severity(run(joined(accept=told(6, 3))), "plain_arm_speculates") is None  # found running
    assert severity(run(joined(), server=launched), "plain_arm_speculates") is None


def test_spec_arm_does_not() -> None:
    assert severity(run(good(), server=ASKED), "spec_arm_does_not") == "invalid"
    reported = {**ASKED, "speculative": {"method": "eagle3"}}
    assert severity(run(good(), server=reported), "spec_arm_does_not") == "invalid"
    assert severity(run(joined(), server=ASKED), "spec_arm_does_not") is None
    # A head that is never right still takes verify steps.
    useless = run(good(accept=told(50, 50)), server=ASKED)
    assert severity(useless, "spec_arm_does_not") is None


def test_speculation_unproven() -> None:
    blind = run(joined((None,) * 4), server=ASKED)
    assert severity(blind, "speculation_unproven") == "doubtful"
    assert severity(run(joined(), server=ASKED), "speculation_unproven") is None


def test_simulated() -> None:
    assert severity(run(good(), server={"simulated": True}), "simulated") == "note"


def test_a_server_that_says_that_it_does_not_speculate() -> None:
    """Joined events do not outweigh what it says itself."""
    denied = {**ASKED, "facts": {"speculates": False}, "unmet": ("speculation was asked for",)}
    assert severity(run(joined(), server=denied), "spec_arm_does_not") == "invalid"


def test_not_as_asked() -> None:
    unmet = ("num_steps 3 was asked for, and the server runs 6",)
    found = doubts(run(joined(), server={**ASKED, "unmet": unmet}))
    assert found["not_as_asked"].severity == "doubtful"
    assert unmet[0] in found["not_as_asked"].message
    assert "not_as_asked" not in doubts(run(joined(), server=ASKED))


def test_steps_that_are_joined_are_told() -> None:
    """By events 2 tokens a step, by the server's count 1.2."""
    whole = run(joined(), server={**ASKED, **counted(accepted=10, drafts=50)})
    found = doubts(whole)
    assert found["joined_steps"].severity == "note"
    assert "accept length 2.00 by events, 1.20 by its own count" in found["joined_steps"].message
    exact = run(joined(), server={**ASKED, **counted(accepted=30, drafts=30)})
    assert "joined_steps" not in doubts(exact)


def test_strangers_tokens_prove_no_joined_steps() -> None:
    """Another user's plain answers in the counters: the events are right, the server is shared."""
    mixed = {"counters_before": {}, "counters_after": {DRAFTS: 430.0, ACCEPTED: 30.0}}
    found = doubts(run(joined(), server={**ASKED, **mixed}))
    assert "joined_steps" not in found
    assert found["accept_sources_disagree"].severity == "doubtful"


def test_a_log_that_knows_less_than_the_events() -> None:
    asked = {**ASKED, "speculative": {"method": "eagle3"}}
    found = doubts(run(joined(), server=asked), log=1.5)
    assert found["joined_steps"].severity == "doubtful"
    assert "accept length of 2.00 is an upper bound, as the server's log says 1.50" in (
        found["joined_steps"].message
    )
    assert "joined_steps" not in doubts(run(joined(), server=asked), log=1.95)


def test_what_a_stopped_server_left() -> None:
    left = ("30 GiB of GPU 0 did not come back",)
    found = doubts(run(good(), server={"teardown": left}))["left_behind"]
    assert found.severity == "note"
    assert left[0] in found.message


def test_more_in_flight_than_the_server_runs_at_once() -> None:
    records = [answer(i, gaps=(20,) * 50, sent=10 * i) for i in range(10)]
    capped = run(records, server={"facts": {"max_running_requests": 8}})
    assert "runs 8 at once and up to 10 requests" in doubts(capped)["capped_server"].message
    enough = run(records, server={"facts": {"max_running_requests": 10}})
    assert severity(enough, "capped_server") is None


def test_capped_server() -> None:
    def crowd(running: int) -> Run:
        """Twenty at once; each batch of `running` waits for the one before."""
        return run([answer(i, gaps=(500, 500), ttft=50 + 1000 * (i // running)) for i in range(20)])

    assert severity(crowd(2), "capped_server") == "doubtful"
    assert severity(crowd(20), "capped_server") is None


def test_one_at_a_time_is_no_cap_however_long_the_prefill() -> None:
    records = [answer(i, gaps=(10,) * 50, ttft=5000, sent=6000 * i) for i in range(12)]
    assert severity(run(records), "capped_server") is None


def on_gpus(*masks: int, others: Sequence[str] = (), serving: bool = True) -> Run:
    """A sample for each mask, of GPU 0; nobody serves on GPU 1, which is hot and full."""
    rows = tuple(
        {
            "at_unix_ns": at,
            "gpu": {
                "0": {
                    "throttle_reasons": mask,
                    "server_processes": int(serving),
                    "other_processes": list(others),
                },
                "1": {"throttle_reasons": 0x20, "other_processes": ["python3 1"]},
            },
        }
        for at, mask in enumerate(masks)
    )
    return run(good(), telemetry=rows)


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        (0x20, "sw thermal slowdown"),
        (0x08, "hw slowdown"),
        (0x40, "hw thermal slowdown"),
        (0x80, "hw power brake slowdown"),
    ],
)
def test_gpu_throttled(mask: int, said: str) -> None:
    found = doubts(on_gpus(mask, mask, 0, 0, 0))["gpu_throttled"]
    assert found.severity == "doubtful"
    assert f"GPU 0 in 40% of the samples ({said})" in found.message
    assert "GPU 1" not in found.message
    assert severity(on_gpus(mask, *([0] * 9)), "gpu_throttled") is None  # a tenth


@pytest.mark.parametrize("mask", [0x01, 0x02, 0x04, 0x10])
def test_idle_clocks_and_the_power_cap_are_no_fault(mask: int) -> None:
    assert severity(on_gpus(mask, mask), "gpu_throttled") is None


def test_gpu_shared() -> None:
    found = doubts(on_gpus(0, 0, others=["python3 4242"]))["gpu_shared"]
    assert found.severity == "doubtful"
    assert "(python3 4242 on GPU 0)" in found.message
    assert severity(on_gpus(0, 0), "gpu_shared") is None
    # Where NVML does not name the server's own processes, these are among the others.
    assert severity(on_gpus(0, 0, others=["python3 1"], serving=False), "gpu_shared") is None
