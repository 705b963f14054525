"""The events have the fields of those that real engines sent."""

from itertools import pairwise
from typing import Any

import pytest

from tests.wire import captured

from .running import Running, chat, payloads

USAGE = {"include_usage": True, "continuous_usage_stats": True}

# Fields of the captured versions that say nothing the sim could say.
LEFT_OUT = {
    "system_fingerprint",
    "completion_tokens_details",
    "per_step_accepted",
    "per_step_drafted",
    "prompt_text",
    # SGLang's /generate
    "num_retractions",
    "queue_time",
    "reasoning_tokens",
    "cached_tokens_details",
    "dp_rank",
    "response_sent_to_client_ts",
    "e2e_latency",
    "request_received_ts",
    "api_server_dispatch_finish_ts",
    "request_finished_ts",
    "decode_throughput",
    "spec_accepted_drafts",
    "spec_proposed_drafts",
    "spec_accept_histogram",
}


def shape(value: Any) -> Any:
    """Names and kinds of all fields, without the values."""
    if isinstance(value, dict):
        return {k: shape(v) for k, v in value.items() if k not in LEFT_OUT}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def real(name: str) -> list[Any]:
    return payloads(captured.body(name))[:-1]


def test_vllm_chat(speculative: Running) -> None:
    asked = chat(stream_options=USAGE, return_token_ids=True)
    ours, theirs = speculative.events(asked), real(captured.VLLM_METRICS)
    for place in (0, 1, 2, -2, -1):  # role, first token, several tokens, last token, usage
        assert shape(ours[place]) == shape(theirs[place])


def test_vllm_plain_chat_has_no_speculation_metrics(plain: Running) -> None:
    ours, theirs = plain.events(chat(stream_options=USAGE)), real(captured.VLLM_PLAIN)
    for place in (0, 1, 2, -2, -1):
        assert shape(ours[place]) == shape(theirs[place])


def test_sglang_chat(sglang: Running) -> None:
    ours, theirs = sglang.events(chat(stream_options=USAGE)), real(captured.SGLANG_TREE)
    for place in (0, 1, 2, -3, -2, -1):  # the finish reason comes in an event of its own
        assert shape(ours[place]) == shape(theirs[place])


def test_sglang_generate(sglang: Running) -> None:
    body = {"text": "Explain this", "stream": True, "sampling_params": {"max_new_tokens": 20}}
    ours, theirs = sglang.events(body, "/generate"), real(captured.GENERATE)
    for place in (0, 1, -1):
        assert shape(ours[place]) == shape(theirs[place])
    counts = [event["meta_info"]["completion_tokens"] for event in ours]
    assert counts == sorted(counts)
    assert [len(event["output_ids"]) for event in ours] == counts
    for earlier, later in pairwise(ours):
        assert later["text"].startswith(earlier["text"])
    meta = ours[-1]["meta_info"]
    assert meta["spec_accept_length"] == 20 / meta["spec_verify_ct"]
    assert sum(meta["spec_correct_drafts_histogram"]) == meta["spec_verify_ct"] == len(ours) - 1


def test_sglang_speculation_details_come_when_asked_for(sglang: Running) -> None:
    quiet = sglang.events(chat(stream_options={"include_usage": True}))
    assert not any("sglext" in event for event in quiet)
    told = sglang.events(
        chat(stream_options={"include_usage": True}, return_spec_tokens_details=True)
    )
    assert told[-2]["choices"] == []
    details = told[-2]["sglext"]["spec_tokens_details"]
    assert details["spec_verify_ct"] == sum(details["spec_correct_drafts_histogram"]) > 0
    assert "metrics" not in told[-1]


@pytest.mark.parametrize("flavour", ["speculative", "sglang"])
def test_completions(flavour: str, request: pytest.FixtureRequest) -> None:
    running: Running = request.getfixturevalue(flavour)
    body = {"prompt": "Explain this", "stream": True, "max_tokens": 20, "return_token_ids": True}
    events = running.events(body, "/v1/completions")
    assert {event["object"] for event in events} == {"text_completion"}
    choices = [event["choices"][0] for event in events]
    assert sum(len(choice["token_ids"]) for choice in choices) == 20
    assert [c["finish_reason"] for c in choices] == [None] * (len(choices) - 1) + ["length"]


@pytest.mark.parametrize(
    ("flavour", "options", "running_usage", "final_usage"),
    [
        ("speculative", None, False, False),
        ("speculative", {"continuous_usage_stats": True}, False, False),
        ("speculative", {"include_usage": True}, False, True),
        ("speculative", USAGE, True, True),
        ("sglang", {"continuous_usage_stats": True}, True, False),
        ("sglang", {"include_usage": True}, False, True),
    ],
)
def test_usage_comes_as_asked_for(
    flavour: str,
    options: dict[str, bool] | None,
    running_usage: bool,
    final_usage: bool,
    request: pytest.FixtureRequest,
) -> None:
    running: Running = request.getfixturevalue(flavour)
    events = running.events(chat(stream_options=options))
    with_text = [e for e in events if e["choices"] and e["choices"][0]["delta"].get("content")]
    assert all(("usage" in event) == running_usage for event in with_text)
    assert (events[-1]["choices"] == []) == final_usage
    if running_usage:
        assert with_text[-1]["usage"]["completion_tokens"] == 20
    if final_usage:
        usage = events[-1]["usage"]
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (6, 20)
        assert usage["total_tokens"] == 26
