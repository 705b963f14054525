from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_client.records import Api, Events, Failure
from bench_client.wire.raw import RawResponse
from bench_client.wire.response import read_response, reading
from bench_client.wire.stream import STEP_EVENTS

from .captured import (
    GENERATE,
    NAMES,
    SGLANG_TREE,
    TRANSFORMERS_ECHO,
    VLLM_METRICS,
    body,
    response,
    timed_events,
)

A = b'data: {"choices": [{"delta": {"content": "a"}}], "usage": {"completion_tokens": 1}}\n\n'
STOP = (
    b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}],'
    b' "usage": {"completion_tokens": 3}}\n\n'
)
DONE = b"data: [DONE]\n\n"
ROLE = b'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}\n\n'
ERROR = b'data: {"error": {"message": "no memory"}}\n\n'


def api_of(name: str) -> Api:
    return "generate" if name == GENERATE else "chat"


def reads(*data: bytes) -> list[tuple[int, bytes]]:
    return [(10 * number, each) for number, each in enumerate(data, 1)]


def plain(status: int | None, content_type: str, text: bytes) -> RawResponse:
    headers = {"Content-Type": content_type} if content_type else {}
    return RawResponse(status=status, headers=headers, reads=[(1, text)], clean_end=True)


@pytest.mark.parametrize("name", [*NAMES, TRANSFORMERS_ECHO])  # the last without [DONE]
def test_captured_responses_are_answers(name: str) -> None:
    result = read_response(response(list(timed_events(name))), api_of(name))
    assert result.failure is None
    assert result.finish_reason == "length"
    assert result.first_token_ns is not None
    assert result.reads == len(result.events.at_ns)


def test_an_event_is_stamped_when_its_blank_line_arrives() -> None:
    raw = response([(10, A[:-1]), (20, b"\n" + A[:9]), (30, A[9:] + STOP[:5]), (40, STOP[5:])])
    result = read_response(raw, "chat")
    assert result.events.at_ns == (20, 30, 40)
    assert (result.first_token_ns, result.last_token_ns, result.reads) == (20, 40, 3)
    assert result.failure is None


@pytest.mark.parametrize("name", [SGLANG_TREE, VLLM_METRICS, GENERATE])
def test_a_response_in_one_read_has_the_same_tokens(name: str) -> None:
    apart = read_response(response(list(timed_events(name))), api_of(name))
    joined = read_response(response([(77, body(name))]), api_of(name))
    assert joined.reads == 1
    assert set(joined.events.at_ns) == {77}
    assert joined.events.tokens == apart.events.tokens
    assert (joined.text, joined.accept) == (apart.text, apart.accept)


@pytest.mark.parametrize("name", [SGLANG_TREE, GENERATE])
def test_a_long_answer_is_read_with_pauses(name: str) -> None:
    events = timed_events(name)
    long = response([*events[:-2], *(events[-3:-2] * 950), *events[-2:]])
    steps = reading(long, api_of(name))
    pauses, result = 0, None
    while result is None:
        try:
            next(steps)
            pauses += 1
        except StopIteration as end:
            result = end.value
    assert pauses == len(long.reads) // STEP_EVENTS
    assert result == read_response(long, api_of(name))


@given(st.lists(st.integers(0, len(body(GENERATE))), max_size=20))
def test_any_reads_of_a_captured_response(cuts: list[int]) -> None:
    stream = body(GENERATE)
    edges = [0, *sorted(cuts), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(edges)]
    result = read_response(response(reads(*pieces)), "generate")
    assert result.failure is None
    assert result.events.tokens == (1, 3, 6, 4, 6, 4, 3, 1, 2, 1, 1, 2, 1, 2, 3)
    assert result.events.at_ns == tuple(sorted(result.events.at_ns))


@pytest.mark.parametrize(
    ("stream", "clean_end", "kind", "tokens"),
    [
        pytest.param([ROLE, A, STOP, DONE], True, None, (1, 2), id="whole"),
        pytest.param([ROLE, A, STOP], True, None, (1, 2), id="without-done"),
        pytest.param([A, STOP, DONE], False, "truncated", (1, 2), id="unclean-end"),
        pytest.param([A], False, "truncated", (1,), id="cut"),
        pytest.param([], False, "truncated", (), id="cut-before-the-first-event"),
        pytest.param([A, STOP[:-1]], True, "truncated", (1,), id="event-without-blank-line"),
        pytest.param([A, b"data: {"], True, "truncated", (1,), id="cut-in-an-event"),
        pytest.param([A, STOP, b": bye\n"], True, None, (1, 2), id="comment-at-the-end"),
        pytest.param([A, DONE], True, "no_finish", (1,), id="no-finish-reason"),
        pytest.param([A], True, "no_finish", (1,), id="neither-finish-nor-done"),
        pytest.param([ROLE, DONE], True, "no_finish", (), id="only-a-role"),
        pytest.param([DONE], True, "no_finish", (), id="only-done"),
        pytest.param([], True, "empty", (), id="nothing"),
        pytest.param([b": ping\n\n"], True, "empty", (), id="only-comments"),
        pytest.param(
            [ROLE, STOP.replace(b"3", b"0"), DONE], True, "empty", (), id="finished-without-a-token"
        ),
        pytest.param([ERROR, DONE], True, "error_event", (), id="error-first"),
        pytest.param([A, ERROR, DONE], True, "error_event", (1,), id="error-after-tokens"),
        pytest.param([A, ERROR], False, "error_event", (1,), id="error-and-cut"),
        pytest.param([A, b"data: {\n\n", STOP], True, "bad_event", (1, 2), id="bad-event"),
    ],
)
def test_how_a_stream_may_end(
    stream: list[bytes], clean_end: bool, kind: str | None, tokens: tuple[int, ...]
) -> None:
    raw = response(reads(*stream))
    raw.clean_end = clean_end
    result = read_response(raw, "chat")
    assert (result.failure and result.failure.kind) == kind
    assert result.events.tokens == tokens


def test_an_oversized_event_keeps_what_came_before() -> None:
    raw = response(reads(A, *[b"data: " + b"x" * (1 << 20)] * 65, STOP))
    result = read_response(raw, "chat")
    assert result.failure is not None
    assert result.failure.kind == "too_large"
    assert result.events == Events((10,), (1,))


def test_a_fault_of_the_transport_wins_and_the_tokens_stay() -> None:
    fault = Failure("reset", "connection reset by peer")
    for raw in (
        response(reads(A, ERROR, b"data: {")),
        plain(500, "application/json", b'{"error": "x"}'),
        plain(200, "text/html", b"<html>"),
        RawResponse(),
    ):
        raw.fault = fault
        raw.clean_end = False
        assert read_response(raw, "chat").failure == fault
    raw = response(reads(A))
    raw.fault = fault
    assert read_response(raw, "chat").events == Events((10,), (1,))


LONG = "y" * 400


@pytest.mark.parametrize(
    ("status", "content_type", "text", "failure"),
    [
        (400, "application/json", b'{"error": {"message": "too\\n long"}}', "too long"),
        (400, "application/json", b'{"object": "error", "message": "old"}', "old"),
        (404, "application/json", b'{"detail": "Not Found"}', "Not Found"),
        (422, "application/json", b'{"detail": [{"msg": "a"}, {"msg": "b"}]}', "a; b"),
        (429, "text/plain", b"slow down\r\n", "slow down"),
        (500, "application/json", b'{"error": "boom"}', "boom"),
        (
            500,
            "text/event-stream",
            A + STOP,
            A.split(b"\n")[0].decode() + " " + STOP.decode().strip(),
        ),
        (
            502,
            "text/html",
            b"<html><title>502 Bad&nbsp;Gateway</title><style>p {}</style>\n<p>nginx</p></html>",
            "502 Bad Gateway nginx",
        ),
        (503, "", b"", "the response had no body"),
        (503, "text/plain", b"\xff\x1b[0m", "\ufffd [0m"),
        (413, "text/plain", LONG.encode(), LONG[:299] + "…"),
        (500, "application/json", b"[" * 100_000, "[" * 299 + "…"),
        (204, "", b"", "the response had no body"),
    ],
)
def test_refusals(status: int, content_type: str, text: bytes, failure: str) -> None:
    result = read_response(plain(status, content_type, text), "chat")
    assert result.failure == Failure(f"http_{status}", failure)
    assert result.events == Events()


@pytest.mark.parametrize(
    ("content_type", "text", "failure"),
    [
        (
            "application/json",
            msgspec.json.encode({"error": {"message": "model x does not exist"}}),
            Failure("error_event", "model x does not exist"),
        ),
        (
            "application/json",
            b'{"object": "error", "message": "old"}',
            Failure("error_event", "old"),
        ),
        (
            "text/html",
            b"<h1>Login</h1>",
            Failure(
                "not_a_stream", "the server answered with text/html, not an event stream: Login"
            ),
        ),
        (
            "",
            b"",
            Failure(
                "not_a_stream",
                "the server answered with no content type, not an event stream: no body",
            ),
        ),
    ],
)
def test_a_200_that_is_no_stream(content_type: str, text: bytes, failure: Failure) -> None:
    assert read_response(plain(200, content_type, text), "chat").failure == failure


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_names_where_to(status: int) -> None:
    raw = plain(status, "text/html", b"<h1>Moved</h1>")
    raw.headers["location"] = "https://other/\x1bv1/"
    failure = read_response(raw, "chat").failure
    told = "the server redirects to https://other/ v1/: give the root there as --url"
    assert failure == Failure(f"http_{status}", told)
    del raw.headers["location"]
    assert read_response(raw, "chat").failure == Failure(f"http_{status}", "Moved")


def test_an_answer_that_was_not_streamed_is_no_stream() -> None:
    text = b'{"object": "chat.completion", "choices": [{"message": {"content": "hi"}}]}'
    failure = read_response(plain(200, "application/json", text), "chat").failure
    assert failure is not None
    assert failure.kind == "not_a_stream"


@pytest.mark.parametrize("content_type", ["text/event-stream", "Text/Event-Stream ; charset=UTF-8"])
def test_content_types_of_a_stream(content_type: str) -> None:
    raw = plain(200, content_type, A + STOP)
    assert read_response(raw, "completions").failure is None


def test_no_response_at_all_is_a_failure() -> None:
    assert read_response(RawResponse(), "chat").failure == Failure(
        "bad_http", "the server sent no HTTP response"
    )


whatever: st.SearchStrategy[Any] = st.builds(
    RawResponse,
    status=st.sampled_from([None, 200, 200, 200, 503]),
    headers=st.sampled_from(
        [{}, {"content-type": "text/event-stream"}, {"content-type": "application/json"}]
    ),
    reads=st.lists(
        st.tuples(
            st.integers(0),
            st.binary(max_size=20)
            | st.sampled_from([A, A[:20], A[20:], STOP, DONE, ERROR, b"\r\n"]),
        ),
        max_size=8,
    ),
    clean_end=st.booleans(),
)


@given(whatever, st.sampled_from(["chat", "completions", "generate"]))
def test_any_response_is_an_answer_or_a_failure(raw: RawResponse, api: Api) -> None:
    result = read_response(raw, api)
    if result.failure is None:
        assert result.finish_reason is not None
        assert result.first_token_ns is not None
        assert raw.clean_end
    else:
        assert result.failure.message
        assert result.failure.message.isprintable()
