"""One answer as its stream told it: chunks added up.

A chunk is a token-bearing event if it has text (answer, reasoning or tool call), token ids, or
tokens by the count of token_counts.py. A role alone is none of these.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from bench_client.records import Accept, Events, Failure, TokenCountSource
from bench_client.wire.chunk import Chunk, first_known, last_known
from bench_client.wire.token_counts import count_tokens

T = TypeVar("T")
P = TypeVar("P", bound="Payload")
Steps = Generator[None, None, T]

# An answer is read in steps of so many events: a long one in one go would keep the sockets
# waiting for milliseconds, while the kernel joins events and forgets their stamps.
STEP_EVENTS = 100


class StreamResult(Struct, frozen=True, kw_only=True):
    """What a response amounted to; instants as the transport stamped them (ns).

    `failure` null is success. `reads` are the arrivals that completed token-bearing events.
    `text` is answer, reasoning and tool calls in the order they came. `token_ids` is null unless
    the counts rest on them. After a failure the rest says what was seen until then.
    """

    first_token_ns: int | None = None
    last_token_ns: int | None = None
    events: Events = Events()
    reads: int = 0
    finish_reason: str | None = None
    failure: Failure | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    token_count_source: TokenCountSource | None = None
    accept: Accept | None = None
    cached_tokens: int | None = None
    text: str = ""
    token_ids: tuple[int, ...] | None = None


def add_up(
    chunks: list[tuple[int, Chunk]], total_source: Literal["usage_delta", "native"]
) -> StreamResult:
    """The chunks of one answer, each with its arrival, as a whole.

    `failure` is the first that the stream itself told of; how the stream ended is not judged.
    """
    said = [chunk for _, chunk in chunks]
    source, counts = count_tokens(said, total_source)
    bearing = [
        (at_ns, count)
        for (at_ns, chunk), count in zip(chunks, counts, strict=True)
        if count or chunk.text or chunk.token_ids
    ]
    at_ns = tuple([at for at, _ in bearing])
    output_tokens = last_known([chunk.total_tokens for chunk in said])
    if source or bearing:
        output_tokens = sum(counts) if source else None
    return StreamResult(
        first_token_ns=at_ns[0] if at_ns else None,
        last_token_ns=at_ns[-1] if at_ns else None,
        events=Events(at_ns, tuple([count if source else None for _, count in bearing])),
        reads=len(set(at_ns)),
        finish_reason=last_known([chunk.finish_reason for chunk in said]),
        failure=first_known(*[chunk.failure for chunk in said]),
        input_tokens=last_known([chunk.input_tokens for chunk in said]),
        output_tokens=output_tokens,
        token_count_source=source or (None if output_tokens is None else "final_usage"),
        accept=_with_tokens(last_known([chunk.accept for chunk in said]), output_tokens),
        cached_tokens=last_known([chunk.cached_tokens for chunk in said]),
        text="".join([chunk.text for chunk in said]),
        token_ids=_joined_ids(said) if source == "token_ids" else None,
    )


def _with_tokens(accept: Accept | None, output_tokens: int | None) -> Accept | None:
    """Where the server doesn't say: all but the first token, which comes from the prefill."""
    if accept is None or accept.tokens is not None or not output_tokens:
        return accept
    return msgspec.structs.replace(accept, tokens=output_tokens - 1)


def _joined_ids(chunks: list[Chunk]) -> tuple[int, ...]:
    return tuple(token for chunk in chunks for token in chunk.token_ids or ())


def until_done(events: Iterable[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """The events before `[DONE]`, without those of empty data (kept alive, nothing said)."""
    said = []
    for event in events:
        payload = event[1]
        if payload.startswith(b"[DONE]"):
            break
        if payload:
            said.append(event)
    return said


def in_steps(
    events: Sequence[tuple[int, bytes]], read: Callable[[bytes], Chunk]
) -> Steps[list[tuple[int, Chunk]]]:
    """The chunk of each event. Pauses now and then, for whoever else has work to do."""
    chunks: list[tuple[int, Chunk]] = []
    for begin in range(0, len(events), STEP_EVENTS):
        if begin:
            yield
        chunks += [(at_ns, read(data)) for at_ns, data in events[begin : begin + STEP_EVENTS]]
    return chunks


def at_once(steps: Steps[T]) -> T:
    """What the steps come to, without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: T = ended.value
            return result


class Payload(Struct, gc=False):
    """What any event may say instead of an answer."""

    error: Any = None
    object: Any = None
    message: Any = None


def decode_event(decode: Callable[[bytes], P], payload: bytes) -> P | Failure:
    """The typed payload; `error_event` where the server reports one, `bad_event` if unreadable."""
    try:
        said = decode(payload)
        if said.error not in (None, False) or said.object == "error":
            return Failure("error_event", one_line(error_text(said.error or said.message)))
    except (msgspec.DecodeError, RecursionError) as error:
        message = f"an event can't be read ({error}): {payload[:80]!r}"
        return Failure("bad_event", one_line(message))
    return said


def finish_failure(reason: str | None, message: str | None = None) -> Failure | None:
    """The failure that a finish reason of `abort` or `error` stands for."""
    if reason == "abort":
        return Failure("abort", one_line(message or "the server aborted the request"))
    if reason == "error":
        return Failure("error_event", one_line(message or "the answer ended with reason error"))
    return None


def error_text(error: Any) -> str:
    """The message in an error object of OpenAI's, vLLM's, SGLang's or FastAPI's making."""
    while isinstance(error, dict):
        inner = first_known(*(error.get(key) for key in ("error", "message", "detail", "msg")))
        if inner is None:
            break
        error = inner
    if isinstance(error, list):
        parts = (each.get("msg", each) if isinstance(each, dict) else each for each in error)
        error = "; ".join(map(str, parts))
    return str(error or "the server gave no reason")


def one_line(text: str, limit: int = 300) -> str:
    """Text of a server fit for one line of a terminal: no control characters, cut at `limit`."""
    head = text[: 4 * limit]
    line = " ".join("".join(char if char.isprintable() else " " for char in head).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
