"""One HTTP response as a whole: what came, and whether it was an answer."""

import html
import re

import msgspec

from bench_client.records import Api, Failure
from bench_client.wire import generate_stream, openai_stream
from bench_client.wire.raw import RawResponse
from bench_client.wire.sse import SseError, SseParser, whole_events
from bench_client.wire.stream import (
    Payload,
    Steps,
    StreamResult,
    at_once,
    decode_event,
    error_text,
    one_line,
)

_TAGS = re.compile(r"(?is)<(script|style)\b.*?</\1\s*>|<[^>]*>")
_REDIRECTS = {301, 302, 303, 307, 308}
_decode_error = msgspec.json.Decoder(Payload).decode


def read_response(raw: RawResponse, api: Api, preamble: int = 0) -> StreamResult:
    """The answer and its tokens, or why there is none.

    A fault of the transport comes first, then what the server said, then how the stream ended;
    the tokens seen before a failure are kept. The first `preamble` events of text are left out.
    """
    return at_once(reading(raw, api, preamble))


def reading(raw: RawResponse, api: Api, preamble: int = 0) -> Steps[StreamResult]:
    """`read_response` with pauses."""
    if raw.status != 200:
        return StreamResult(failure=raw.fault or _refusal(raw))
    if not raw.is_stream:
        return StreamResult(failure=raw.fault or _no_stream(raw))
    events, broken = _events(raw)
    if api == "generate":
        result = yield from generate_stream.fold(events)
    else:
        result = yield from openai_stream.fold(events, preamble)
    failure = raw.fault or result.failure or broken
    if failure is None:
        failure = _ending(raw, result, any_event=bool(events))
    return msgspec.structs.replace(result, failure=failure)


def _events(raw: RawResponse) -> tuple[list[tuple[int, bytes]], Failure | None]:
    """The data of each event with the arrival of the read that completed it."""
    usual = whole_events(raw.reads)
    if usual is not None:
        return usual, None
    parser = SseParser()
    events: list[tuple[int, bytes]] = []
    try:
        for at_ns, data in raw.reads:
            for payload in parser.feed(data):
                events.append((at_ns, payload))
    except SseError as error:
        return events, Failure("too_large", str(error))
    if parser.pending:
        return events, Failure("truncated", f"the stream broke off inside event {len(events) + 1}")
    return events, None


def _ending(raw: RawResponse, result: StreamResult, *, any_event: bool) -> Failure | None:
    """What is wrong with a stream that reported nothing wrong itself."""
    if not raw.clean_end:
        return Failure("truncated", "the connection closed before the response had ended")
    if result.finish_reason is None and any_event:
        return Failure("no_finish", "the stream ended without a finish reason")
    if not result.events.at_ns:
        return Failure("empty", "the answer held no token")
    return None


def _refusal(raw: RawResponse) -> Failure:
    if raw.status is None:
        return Failure("bad_http", "the server sent no HTTP response")
    location = raw.headers.get("location")
    if raw.status in _REDIRECTS and location:
        message = one_line(f"the server redirects to {location}: give the root there as --url")
        return Failure(f"http_{raw.status}", message)
    return Failure(f"http_{raw.status}", _body_text(raw) or "the response had no body")


def _no_stream(raw: RawResponse) -> Failure:
    body = b"".join(data for _, data in raw.reads)
    said = decode_event(_decode_error, body)
    if isinstance(said, Failure) and said.kind == "error_event":
        return said
    kind = raw.content_type or "no content type"
    body_text = _body_text(raw) or "no body"
    message = f"the server answered with {kind}, not an event stream: {body_text}"
    return Failure("not_a_stream", one_line(message))


def _body_text(raw: RawResponse) -> str:
    """The server's message in a body of JSON, HTML or text, in one line."""
    body = b"".join(data for _, data in raw.reads)
    try:
        return one_line(error_text(msgspec.json.decode(body)))
    except (msgspec.DecodeError, RecursionError):
        text = body[:8192].decode(errors="replace")
        return one_line(html.unescape(_TAGS.sub(" ", text)) if "<" in text else text)
