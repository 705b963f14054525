from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_client.records import Accept, Events, Failure
from bench_client.wire.stream import StreamResult

from .captured import (
    SGLANG_EAGLE3,
    SGLANG_PLAIN,
    SGLANG_TREE,
    TRANSFORMERS_COMPLETIONS,
    TRANSFORMERS_ECHO,
    VLLM_EAGLE3,
    VLLM_METRICS,
    VLLM_PLAIN,
    timed_events,
)
from .chunks import chat, delta, folded, read, usage


def captured(name: str, until: int | None = None, preamble: int = 0) -> StreamResult:
    events = [(at_ns, data[6:-2]) for at_ns, data in timed_events(name)[:until]]
    return folded(events, preamble)


@pytest.mark.parametrize(
    ("name", "source", "events", "tokens", "largest"),
    [
        (SGLANG_TREE, "usage_delta", 186, 600, 35),
        (SGLANG_EAGLE3, "usage_delta", 772, 2000, 33),
        (SGLANG_PLAIN, "usage_delta", 476, 512, 35),
        (VLLM_EAGLE3, "token_ids", 784, 2000, 4),
        (VLLM_PLAIN, "usage_delta", 512, 512, 1),
        (VLLM_METRICS, "token_ids", 157, 400, 4),
    ],
)
def test_captured_streams(name: str, source: str, events: int, tokens: int, largest: int) -> None:
    result = captured(name)
    counts = [count for count in result.events.tokens if count is not None]
    assert result.token_count_source == source
    assert (len(counts), sum(counts), max(counts)) == (events, tokens, largest)
    assert min(counts) >= 1
    assert result.output_tokens == tokens
    assert result.reads == events
    assert result.finish_reason == "length"
    assert result.failure is None
    assert result.input_tokens == (12 if name == VLLM_METRICS else 452)
    arrivals = [at_ns for at_ns, _ in timed_events(name)]
    assert result.first_token_ns == result.events.at_ns[0] == arrivals[1]  # 0 is the role
    last = {"usage_delta": -4 if "sglang" in name else -3, "token_ids": -3}[source]
    assert result.last_token_ns == result.events.at_ns[-1] == arrivals[last]


def test_transformers_serve_counts_at_the_end_only() -> None:
    result = captured(TRANSFORMERS_COMPLETIONS)
    assert result.failure is None
    assert result.finish_reason == "length"  # on the event that has the usage, and no text
    assert (result.input_tokens, result.output_tokens) == (8, 32)
    assert result.token_count_source == "final_usage"
    assert result.events.tokens == (1,) * 32 == (1,) * len(result.text)
    arrivals = [at_ns for at_ns, _ in timed_events(TRANSFORMERS_COMPLETIONS)]
    assert result.events.at_ns == tuple(arrivals[:-1])


def test_what_transformers_serve_sends_before_it_generates_is_no_token() -> None:
    arrivals = [at_ns for at_ns, _ in timed_events(TRANSFORMERS_ECHO)]
    result = captured(TRANSFORMERS_ECHO, preamble=1)
    assert result.first_token_ns == arrivals[2]  # after the role and the prompt
    assert result.text.startswith(" nfnf ng")
    assert (result.input_tokens, result.output_tokens) == (16, 32)
    assert result.events == Events(tuple(arrivals[2:-1]), (1,) * 32)
    taken_for_one = captured(TRANSFORMERS_ECHO)
    assert taken_for_one.first_token_ns == arrivals[1]
    assert taken_for_one.text == "tell me of the river and the stone" + result.text


def test_a_preamble_longer_than_the_answer_leaves_nothing() -> None:
    events = [(10, msgspec.json.encode(chat("a"))), (20, msgspec.json.encode(chat("b", 2)))]
    assert folded(events, 3).events == Events()
    assert folded(events, 1).events.at_ns == (20,)


def test_speculation_as_vllm_reports_it() -> None:
    result = captured(VLLM_METRICS)
    assert result.accept == Accept(
        source="metrics.speculative_decoding",
        verify_steps=156,
        tokens=399,
        accepted_tokens=243,
        draft_tokens=468,
        histogram=(48, 33, 15, 60),
    )
    assert len(result.events.at_ns) == 1 + 156  # vLLM sends an event a step
    assert captured(VLLM_EAGLE3).accept is None


def test_both_engines_wrote_the_same_text() -> None:
    assert captured(VLLM_EAGLE3).text == captured(SGLANG_EAGLE3).text
    assert len(captured(VLLM_EAGLE3).token_ids or ()) == 2000
    assert captured(SGLANG_EAGLE3).token_ids is None


def test_a_stream_cut_short_keeps_what_came() -> None:
    result = captured(SGLANG_TREE, until=4)
    assert result.events == Events((186_484_000, 189_679_000, 195_664_000), (1, 4, 3))
    assert result.output_tokens == 8
    assert result.finish_reason is None


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"role": "assistant", "content": ""}, ""),
        ({"role": "assistant", "content": None}, ""),
        ({}, ""),
        ({"content": "a"}, "a"),
        ({"reasoning_content": "r"}, "r"),
        ({"reasoning": "r"}, "r"),
        ({"reasoning": "r", "reasoning_content": "r"}, "r"),
        ({"reasoning_content": "r", "content": "a"}, "ra"),
        ({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]}, "f"),
        ({"tool_calls": [{"function": {"name": None, "arguments": '{"x'}}]}, '{"x'),
        ({"tool_calls": [{"function": None}, None]}, ""),
        ({"tool_calls": []}, ""),
    ],
)
def test_what_bears_tokens_in_a_delta(fields: dict[str, Any], text: str) -> None:
    result = read(delta(**fields))
    assert result.text == text
    assert result.events == (Events((10,), (None,)) if text else Events())
    assert result.first_token_ns == (10 if text else None)


def test_completions() -> None:
    result = read(
        {"choices": [{"index": 0, "text": "a", "prompt_token_ids": [1, 2, 3]}]},
        {"choices": [{"index": 0, "text": "bc", "finish_reason": "stop"}]},
    )
    assert (result.text, result.finish_reason, result.input_tokens) == ("abc", "stop", 3)
    assert result.events == Events((10, 20), (None, None))


def test_other_choices_are_left_out() -> None:
    other = {"index": 1, "delta": {"content": "x"}, "token_ids": [9], "finish_reason": "abort"}
    mine = {"index": 0, "delta": {"content": "a"}, "token_ids": [1], "finish_reason": "stop"}
    result = read({"choices": [other]}, {"choices": [other, mine, None]}, {"choices": [other]})
    assert (result.text, result.token_ids, result.finish_reason) == ("a", (1,), "stop")
    assert result.failure is None


def test_input_and_cached_tokens() -> None:
    details = {
        "prompt_tokens": 9,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    result = read(chat("a"), {"choices": [], "usage": details})
    assert (result.input_tokens, result.cached_tokens) == (9, 4)
    result = read({**chat("a"), "prompt_token_ids": [3, 4, 5]})
    assert (result.input_tokens, result.cached_tokens) == (3, None)


def test_speculation_of_a_server_that_counts_its_own_tokens() -> None:
    spec = {"num_spec_steps": 2, "tokens": 6, "num_accepted_draft_tokens": 4}
    result = read(chat("abc"), usage(6, metrics={"speculative_decoding": spec}))
    assert result.accept == Accept(
        source="metrics.speculative_decoding", verify_steps=2, tokens=6, accepted_tokens=4
    )


@pytest.mark.parametrize(
    ("chunk", "tokens"),
    [
        (chat("b", None), None),  # the number of output tokens stays unknown
        (usage(9), 8),
    ],
)
def test_speculation_as_sglang_reports_it(chunk: dict[str, Any], tokens: int | None) -> None:
    spec = {
        "spec_verify_ct": 3,
        "spec_num_correct_drafts": 5,
        "spec_num_proposed_drafts": 12,
        "spec_correct_drafts_histogram": [0, 1, 2],
        "spec_accept_length": 2.7,
    }
    result = read(chat("a"), {"choices": [], "sglext": {"spec_tokens_details": spec}}, chunk)
    assert result.accept == Accept(
        source="sglext.spec_tokens_details",
        verify_steps=3,
        tokens=tokens,
        accepted_tokens=5,
        draft_tokens=12,
        histogram=(0, 1, 2),
    )


@pytest.mark.parametrize("empty", [None, {"speculative_decoding": None}, {}, {"ttft_ms": 3.0}])
def test_no_speculation(empty: dict[str, Any] | None) -> None:
    result = read(chat("a"), usage(1, metrics=empty, sglext={"spec_tokens_details": None}))
    assert (result.accept, result.failure, result.output_tokens) == (None, None, 1)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ({"error": {"message": "out\nof  memory", "code": 500}}, "out of memory"),
        ({"error": "model gone"}, "model gone"),
        ({"error": {"error": {"message": "nested"}}}, "nested"),
        ({"error": ""}, "the server gave no reason"),
        ({"error": {"code": 5}}, "{'code': 5}"),
        ({"object": "error", "message": "old vLLM", "code": 400}, "old vLLM"),
        ({"error": {"message": "x" * 1000}}, "x" * 299 + "…"),
        ({"error": {"message": "\x1b[31mred\x07\u2028line"}}, "[31mred line"),
    ],
)
def test_an_error_event(error: dict[str, Any], message: str) -> None:
    failure = Failure("error_event", message)
    assert read(error, b"[DONE]").failure == failure
    late = read(chat("a", 1), error, chat("b", 2))
    assert late.failure == failure
    assert late.events == Events((10, 30), (1, 1))


@pytest.mark.parametrize(("finish", "kind"), [("abort", "abort"), ("error", "error_event")])
def test_a_finish_reason_that_is_a_failure(finish: str, kind: str) -> None:
    result = read(chat("a", 1), chat(None, None, None, finish), usage(1))
    assert result.failure is not None
    assert (result.failure.kind, result.finish_reason) == (kind, finish)
    assert result.output_tokens == 1


def test_nulls_everywhere_and_unknown_fields() -> None:
    names = ["id", "choices", "usage", "error", "object", "metrics", "sglext", "prompt_token_ids"]
    nulls = dict.fromkeys(names)
    choice = {"index": None, "delta": None, "token_ids": None, "finish_reason": None, "new": [1]}
    result = read(
        nulls,
        {**nulls, "choices": [choice]},
        {**chat("a"), "error": False, "kv_transfer_params": {"x": [{}]}},
        {**nulls, "usage": {"completion_tokens": None, "prompt_tokens_details": None}},
    )
    assert (result.text, result.failure) == ("a", None)


@pytest.mark.parametrize(
    "payload",
    [
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"hello",
        b'{"choices": {}}',
        b'{"choices": [{"delta": {"content": [1]}}]}',
        b'{"choices": [{"delta": {"content": "\xff"}}]}',
        b'{"choices": [{"token_ids": ["a"]}]}',
        b'{"usage": {"completion_tokens": -1}}',
        b'{"usage": {"completion_tokens": "9"}}',
        b'{"x": ' + b"[" * 100_000,
    ],
)
def test_an_event_that_cannot_be_read(payload: bytes) -> None:
    result = read(chat("a", 1), payload, chat("b", 3, None, "stop"))
    assert result.failure is not None
    assert result.failure.kind == "bad_event"
    assert "\n" not in result.failure.message
    assert len(result.failure.message) <= 300
    assert result.events == Events((10, 30), (1, 2))


def test_nothing_counts_after_done_and_empty_data_says_nothing() -> None:
    result = read(b"", chat("a", 1), b"", b"[DONE]", chat("b", 2), b"{")
    assert (result.text, result.output_tokens, result.failure) == ("a", 1, None)


fields = st.sampled_from(
    ["choices", "delta", "content", "usage", "completion_tokens", "token_ids", "error", "message",
     "index", "text", "finish_reason", "metrics", "speculative_decoding", "num_spec_steps",
     "sglext", "spec_tokens_details", "tool_calls", "function", "object", "detail"]
)  # fmt: skip
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(fields, inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(fields, json_values, max_size=4) | json_values, max_size=6))
def test_any_json_is_read_or_a_failure(payloads: list[Any]) -> None:
    result = folded((number, msgspec.json.encode(each)) for number, each in enumerate(payloads))
    assert len(result.events.at_ns) == len(result.events.tokens)
    known = [count for count in result.events.tokens if count is not None]
    assert not known or sum(known) == result.output_tokens


@given(st.lists(st.binary(max_size=30)))
def test_any_bytes_are_a_failure(payloads: list[bytes]) -> None:
    assert folded(enumerate(payloads)).events == Events()
