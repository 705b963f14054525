from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_client.records import Accept, Events, Failure
from bench_client.wire.generate_stream import fold
from bench_client.wire.stream import StreamResult, at_once

from .captured import GENERATE, timed_events


def said(
    text: str | None,
    total: int | None = None,
    ids: list[int] | None = None,
    finish: dict[str, Any] | str | None = None,
    **meta: Any,
) -> dict[str, Any]:
    """One event of `/generate`."""
    meta |= {"completion_tokens": total, "finish_reason": finish, "prompt_tokens": 4}
    return {"text": text, "output_ids": ids, "meta_info": meta}


def read(*payloads: dict[str, Any] | bytes) -> StreamResult:
    """The events, arriving at 10, 20, 30, ..."""
    encoded = (each if isinstance(each, bytes) else msgspec.json.encode(each) for each in payloads)
    return at_once(fold((10 * n, payload) for n, payload in enumerate(encoded, 1)))


def captured() -> list[dict[str, Any]]:
    return [msgspec.json.decode(data[6:-2]) for _, data in timed_events(GENERATE)[:-1]]


def increments(events: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    """The same events with only what is new in the fields named."""
    seen: dict[str, int] = dict.fromkeys(names, 0)
    cut = []
    for event in events:
        new = {name: event[name][seen[name] :] for name in names}
        seen = {name: len(event[name]) for name in names}
        cut.append({**event, **new})
    return cut


def test_captured_stream() -> None:
    result = read(*captured(), b"[DONE]")
    assert result.events.tokens == (1, 3, 6, 4, 6, 4, 3, 1, 2, 1, 1, 2, 1, 2, 3)
    assert result.events.at_ns == tuple(range(10, 160, 10))
    assert (result.output_tokens, result.input_tokens, result.cached_tokens) == (40, 4, 0)
    assert result.token_count_source == "token_ids"
    assert result.token_ids == tuple(range(2505, 2545))
    assert result.text == captured()[-1]["text"]
    assert (result.finish_reason, result.failure) == ("length", None)
    assert result.accept == Accept(
        source="meta_info",
        verify_steps=14,
        tokens=39,
        accepted_tokens=28,
        draft_tokens=434,
        histogram=(4, 3, 2, 2, 0, 3),
    )


@pytest.mark.parametrize("names", [("text",), ("output_ids",), ("text", "output_ids")])
def test_increments_come_to_the_same(names: tuple[str, ...]) -> None:
    assert read(*increments(captured(), *names)) == read(*captured())


def test_without_ids_the_native_count_is_used() -> None:
    events = [{**event, "output_ids": None} for event in captured()]
    result, with_ids = read(*events), read(*captured())
    assert result.token_count_source == "native"
    assert result.events == with_ids.events
    assert result.token_ids is None


@pytest.mark.parametrize(
    ("events", "source", "tokens", "text"),
    [
        pytest.param(
            [said("a", 1), said("a", 3), said("abc", 4)], "native", (1, 2, 1), "abc", id="withheld"
        ),
        pytest.param(
            [said("", 1), said("", 2), said("语", 3)], "native", (1, 1, 1), "语", id="half-char"
        ),
        pytest.param(
            [said("a", 1), said("a", 1), said("ab", 2)], "native", (1, 1), "ab", id="nothing-new"
        ),
        pytest.param(
            [said("ab", 1), said("ab<e", 2), said("ab", 3)],
            "native", (1, 1, 1), "ab<e", id="cut-at-a-stop-string",
        ),
        pytest.param(
            [said("\n", 1), said("\n\n", 2), said("x", 3), said("y", 4)],
            "native", (1, 1, 1, 1), "\n\n\nxy", id="increments-that-look-cumulative",
        ),
        pytest.param(
            [said("a", 1, [1]), said("ab", 2, [1, 9, 9])],
            "native", (1, 1), "ab", id="ids-that-do-not-add-up",
        ),
        pytest.param(
            [said(None, 1, [1]), said(None, 3, [1, 2, 3])],
            "token_ids", (1, 2), "", id="ids-without-text",
        ),
        pytest.param([said("a"), said("abc")], None, (None, None), "abc", id="no-count"),
        pytest.param(
            [said("a"), said("abc", 6)], "final_usage", (2, 4), "abc", id="count-at-the-end-only"
        ),
    ],
)  # fmt: skip
def test_tokens_of_events(
    events: list[dict[str, Any]], source: str | None, tokens: tuple[int, ...], text: str
) -> None:
    result = read(*events)
    assert (result.token_count_source, result.events.tokens) == (source, tokens)
    assert result.text == text


@pytest.mark.parametrize(
    ("finish", "reason", "failure"),
    [
        ({"type": "length", "length": 3}, "length", None),
        ({"type": "stop", "matched": 151645}, "stop", None),
        ({"type": "stop", "matched": "</s>"}, "stop", None),
        ("stop", "stop", None),
        (
            {"type": "abort", "message": "Out\nof memory"},
            "abort",
            Failure("abort", "Out of memory"),
        ),
        (
            {"type": "abort", "message": None},
            "abort",
            Failure("abort", "the server aborted the request"),
        ),
        (None, None, None),
    ],
)
def test_finish_reasons(
    finish: dict[str, Any] | str | None, reason: str | None, failure: Failure | None
) -> None:
    result = read(said("a", 1), said("ab", 2, finish=finish))
    assert (result.finish_reason, result.failure) == (reason, failure)
    assert result.output_tokens == 2


@pytest.mark.parametrize(
    ("meta", "accepted", "drafted", "histogram"),
    [
        ({"spec_verify_ct": 5}, None, None, ()),  # 0.5.3
        (
            {
                "spec_verify_ct": 5,
                "spec_accept_token_num": 7,
                "spec_draft_token_num": 15,
                "spec_accept_histogram": [1, 1, 3],
                "spec_accept_rate": 0.46,
            },
            7,
            15,
            (1, 1, 3),
        ),  # 0.5.9
        ({"spec_verify_ct": 5, "spec_accepted_drafts": 0}, 0, None, ()),
    ],
)
def test_speculation_of_older_versions(
    meta: dict[str, Any], accepted: int | None, drafted: int | None, histogram: tuple[int, ...]
) -> None:
    result = read(said("a", 1), said("abc", 13, **meta))
    assert result.accept == Accept(
        source="meta_info",
        verify_steps=5,
        tokens=12,
        accepted_tokens=accepted,
        draft_tokens=drafted,
        histogram=histogram,
    )


def test_no_verify_step_is_no_speculation() -> None:
    assert read(said("a", 1, spec_verify_ct=0)).accept is None
    assert read(said("a", 1)).accept is None


def test_errors() -> None:
    error = {"error": {"message": "bad\nrequest", "type": "x", "code": 400, "retryable": False}}
    result = read(said("a", 1), error, b"[DONE]")
    assert result.failure == Failure("error_event", "bad request")
    assert result.events == Events((10,), (1,))


@pytest.mark.parametrize(
    "payload", [b"{", b"[]", b'{"text": 5}', b'{"meta_info": []}', b'{"output_ids": "abc"}']
)
def test_an_event_that_cannot_be_read(payload: bytes) -> None:
    result = read(payload, said("a", 1), payload, said("ab", 2))
    assert result.failure is not None
    assert result.failure.kind == "bad_event"
    assert (result.text, result.events.tokens) == ("ab", (1, 1))


def test_other_answers_of_a_batch_are_left_out() -> None:
    result = read(said("a", 1), {**said("xyz", 9), "index": 1}, {**said("ab", 2), "index": 0})
    assert (result.text, result.output_tokens, result.events.at_ns) == ("ab", 2, (10, 30))


@given(
    st.lists(st.tuples(st.text("ab语", max_size=4), st.integers(1, 5)), min_size=1),
    st.booleans(),
    st.booleans(),
)
def test_whole_or_in_increments(steps: list[tuple[str, int]], texts: bool, ids: bool) -> None:
    events, text, total = [], "start:", 0
    for new_text, new_tokens in [("", 1), *steps]:
        text, total = text + new_text, total + new_tokens
        events.append(said(text, total, list(range(total))))
    names = [name for name, wanted in (("text", texts), ("output_ids", ids)) if wanted]
    result = read(*increments(events, *names))
    assert result.events.tokens == (1, *(new for _, new in steps))
    assert result.token_ids == tuple(range(total))
    assert result.text == text


@given(st.lists(st.binary(max_size=30)))
def test_any_bytes_are_a_failure(payloads: list[bytes]) -> None:
    assert at_once(fold(enumerate(payloads))).events == Events()
