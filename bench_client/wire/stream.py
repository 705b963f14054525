"""One answer as its stream told it: chunks added up, tokens counted.

How tokens are counted, decided once for a whole answer (the first source that adds up):

1. `token_ids`: the ids on the events, if their number is the server's own total (or, without a
   total, if every event with text has them).
2. `usage_delta`, on `/generate` called `native`: the growth of the server's running total, each
   growth on the event that carried it, if most events with text carry the total and it never
   falls. Tokens that only the usage after the last choice reveals (text held back and never
   sent) go to the last event.
3. `final_usage`: the total, spread over the events by the length of their text, one each at
   least if it is enough for that.
4. Nothing: counts are null. A chunk is never taken for a token, nor the length asked for.

A chunk is a token-bearing event if it has text (answer, reasoning or tool call), token ids, or
tokens by the count above. A role alone is none of these.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from heapq import heapify, heapreplace
from operator import gt
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from bench_client.records import Accept, Events, Failure, TokenCountSource

T = TypeVar("T")
P = TypeVar("P", bound="Payload")
Steps = Generator[None, None, T]
Count = Annotated[int, Meta(ge=0)]

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


class Chunk(Struct, frozen=True, kw_only=True, gc=False):
    """What one event says, whatever the API. Null is unsaid.

    `text` and `token_ids` are new with this event, `total_tokens` is the server's count of output
    tokens so far, `trailing` marks an event after the answer (usage, metrics). `accept.tokens` is
    null where the server leaves it to be told from the number of output tokens.
    """

    text: str = ""
    token_ids: list[int] | None = None
    total_tokens: Count | None = None
    trailing: bool = False
    finish_reason: str | None = None
    failure: Failure | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    accept: Accept | None = None


class SglangSpeculation(Struct, frozen=True, kw_only=True):
    """SGLang's counts of one request, under the names of 0.5.3 to 0.5.23."""

    spec_verify_ct: Count | None = None
    spec_num_correct_drafts: Count | None = None
    spec_accepted_drafts: Count | None = None
    spec_accept_token_num: Count | None = None
    spec_num_proposed_drafts: Count | None = None
    spec_proposed_drafts: Count | None = None
    spec_draft_token_num: Count | None = None
    spec_correct_drafts_histogram: list[int] | None = None
    spec_accept_histogram: list[int] | None = None

    def accept(self, source: str) -> Accept | None:
        """The same as records name it; null if the request had no verify step."""
        if not self.spec_verify_ct:
            return None
        return Accept(
            source=source,
            verify_steps=self.spec_verify_ct,
            accepted_tokens=_first(
                self.spec_num_correct_drafts, self.spec_accepted_drafts, self.spec_accept_token_num
            ),
            draft_tokens=_first(
                self.spec_num_proposed_drafts, self.spec_proposed_drafts, self.spec_draft_token_num
            ),
            histogram=tuple(self.spec_correct_drafts_histogram or self.spec_accept_histogram or ()),
        )


def add_up(
    chunks: list[tuple[int, Chunk]], total_source: Literal["usage_delta", "native"]
) -> StreamResult:
    """The chunks of one answer, each with its arrival, as a whole.

    `failure` is the first that the stream itself told of; how the stream ended is not judged.
    """
    said = [chunk for _, chunk in chunks]
    source, counts = _count_tokens(said, total_source)
    bearing = [
        (at_ns, count)
        for (at_ns, chunk), count in zip(chunks, counts, strict=True)
        if count or chunk.text or chunk.token_ids
    ]
    at_ns = tuple([at for at, _ in bearing])
    output_tokens = _last([chunk.total_tokens for chunk in said])
    if source or bearing:
        output_tokens = sum(counts) if source else None
    return StreamResult(
        first_token_ns=at_ns[0] if at_ns else None,
        last_token_ns=at_ns[-1] if at_ns else None,
        events=Events(at_ns, tuple([count if source else None for _, count in bearing])),
        reads=len(set(at_ns)),
        finish_reason=_last([chunk.finish_reason for chunk in said]),
        failure=_first(*[chunk.failure for chunk in said]),
        input_tokens=_last([chunk.input_tokens for chunk in said]),
        output_tokens=output_tokens,
        token_count_source=source or (None if output_tokens is None else "final_usage"),
        accept=_with_tokens(_last([chunk.accept for chunk in said]), output_tokens),
        cached_tokens=_last([chunk.cached_tokens for chunk in said]),
        text="".join([chunk.text for chunk in said]),
        token_ids=_joined_ids(said) if source == "token_ids" else None,
    )


def _count_tokens(
    chunks: list[Chunk], total_source: Literal["usage_delta", "native"]
) -> tuple[TokenCountSource | None, list[int]]:
    """The source that adds up and the tokens of each chunk (the rule at the top of the file)."""
    totals = [chunk.total_tokens for chunk in chunks]
    total = _last(totals)
    ids = [chunk.token_ids for chunk in chunks]
    if any(ids):
        counts = [len(each or ()) for each in ids]
        everywhere = all(chunk.token_ids is not None for chunk in chunks if chunk.text)
        if everywhere if total is None else sum(counts) == total:
            return "token_ids", counts
    growth = _growth(chunks)
    if any(growth):
        return total_source, growth
    lengths = [len(chunk.text) for chunk in chunks]
    if any(lengths) and total is not None and total > 0:
        return "final_usage", _spread(total, lengths)
    return None, [0] * len(chunks)


def _growth(chunks: list[Chunk]) -> list[int]:
    """Growth of the running total on each chunk; all zero if it isn't a running total."""
    counts = [0] * len(chunks)
    with_text = [chunk.total_tokens for chunk in chunks if chunk.text]
    if with_text and 2 * with_text.count(None) >= len(with_text):
        return counts
    totals = [chunk.total_tokens for chunk in chunks if chunk.total_tokens is not None]
    if any(map(gt, totals, totals[1:])):
        return counts
    seen, last_event = 0, None
    for index, chunk in enumerate(chunks):
        gained = 0 if chunk.total_tokens is None else chunk.total_tokens - seen
        if not chunk.trailing and (gained or chunk.text):
            last_event = index
        if last_event is not None:
            counts[last_event] += gained
            seen += gained
    return counts


def _spread(total: int, weights: list[int]) -> list[int]:
    """Integers that sum to `total`, in proportion to `weights` (largest remainder).

    No text comes without a token: if there are enough, what got none takes one from the richest.
    """
    whole = sum(weights)
    shares = [total * weight // whole for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda i: -(total * weights[i] % whole))
    for index in by_remainder[: total - sum(shares)]:
        shares[index] += 1
    if total < len(weights) - weights.count(0):
        return shares
    richest = [(-share, index) for index, share in enumerate(shares)]
    heapify(richest)
    for index, weight in enumerate(weights):
        if weight and not shares[index]:
            debt, lender = richest[0]
            heapreplace(richest, (debt + 1, lender))
            shares[index], shares[lender] = 1, -debt - 1
    return shares


def _with_tokens(accept: Accept | None, output_tokens: int | None) -> Accept | None:
    """Where the server doesn't say: all but the first token, which comes from the prefill."""
    if accept is None or accept.tokens is not None or not output_tokens:
        return accept
    return msgspec.structs.replace(accept, tokens=output_tokens - 1)


def _joined_ids(chunks: list[Chunk]) -> tuple[int, ...]:
    return tuple(token for chunk in chunks for token in chunk.token_ids or ())


def _first(*values: T | None) -> T | None:
    return next((value for value in values if value is not None), None)


def _last(values: list[T | None]) -> T | None:
    return _first(*reversed(values))


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
        inner = _first(*(error.get(key) for key in ("error", "message", "detail", "msg")))
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
