"""The streams that go wrong. What each kind of fault means is told in `faults`."""

import os
import signal
from array import array
from collections.abc import Callable
from time import time_ns
from typing import Any

from msgspec import json

from .answers import CHUNKED, Stream
from .connection import Connection
from .faults import MESSAGE, Fault
from .payloads import DONE, Payloads
from .send_log import Entry

_BIG_EVENT_BYTES = 2_000_000
_IDLE_S = 0.05
_HEADER_INTERVAL_S = 0.02


class FaultyStream(Stream):
    """A stream with one fault."""

    def __init__(self, fault: Fault, conn: Connection, payloads: Payloads, entry: Entry) -> None:
        super().__init__(conn, payloads, entry)
        self._kind = fault.kind
        self._after = fault.after
        self._held = bytearray()
        if fault.kind == "http10":
            conn.keep_alive = False

    def begin(self, start: Callable[[], None]) -> None:
        """Send the head, for `slow_headers` a line at a time."""
        if self._kind == "slow_headers":
            lines = self.head().splitlines(keepends=True)
            for number, line in enumerate(lines):
                self.conn.loop.call_later(number * _HEADER_INTERVAL_S, self.send, line)
            self.conn.loop.call_later(len(lines) * _HEADER_INTERVAL_S, start)
        elif self._kind == "content_length":
            start()  # the head goes out last, when the length is known
        else:
            self.send(self.head())
            if not self._struck():
                start()

    def emit(self, count: int) -> None:
        """Send the last `count` tokens, then strike if it is time."""
        if self._kind == "many_events":
            self._emit_many()
            return
        super().emit(count)
        self._struck()

    def finish(self, events: list[bytes]) -> None:
        """Send the end."""
        if self._kind == "content_length":
            body = self._held + b"".join(events)
            length = b"content-length: %d\r\n" % len(body)
            self.entry.sent_ns = array("q", [time_ns()] * len(self.entry.sent_ns))
            self.end()
            self.conn.send(self.head(length) + body)
            self.conn.finished()
            return
        super().finish(events)
        if self._kind == "close_idle":
            self.conn.close_when_idle(_IDLE_S)

    def send(self, data: bytes) -> None:
        """Send in one piece, byte by byte, or not yet."""
        match self._kind:
            case "one_byte":
                for i in range(len(data)):
                    self.conn.send(data[i : i + 1])
            case "content_length":
                self._held += data
            case _:
                self.conn.send(data)

    def head(self, framing: bytes = CHUNKED) -> bytes:
        """Status line and headers in the fault's shape."""
        match self._kind:
            case "http10":
                return super().head(b"").replace(b"1.1", b"1.0", 1)
            case "trailers":
                return super().head(framing + b"trailer: x-sim\r\n")
        return super().head(framing)

    def token_event(self, count: int) -> bytes:
        """The event of the last `count` tokens; the first may be big."""
        event = super().token_event(count)
        first = self.sequence.emitted == count
        return _inflated(event) if self._kind == "big_event" and first else event

    def frame(self, event: bytes) -> bytes:
        """An event in the fault's shape."""
        match self._kind:
            case "crlf":
                event = event.replace(b"\n", b"\r\n")
            case "nospace":
                event = event.replace(b"data: ", b"data:", 1)
            case "comments":
                event = b": keep-alive\n\n" + event
            case "chunk_extensions":
                return b'%x;sim="yes"\r\n%b\r\n' % (len(event), event)
            case "http10" | "content_length":
                return event
        return super().frame(event)

    def closing_events(self) -> list[bytes]:
        """What follows the last token, for `no_done` without [DONE]."""
        events = super().closing_events()
        return events[:-1] if self._kind == "no_done" else events

    def terminator(self) -> bytes:
        """The end of the body in the fault's shape."""
        match self._kind:
            case "http10":
                return b""
            case "trailers":
                return b"0\r\nx-sim: done\r\n\r\n"
        return super().terminator()

    def _emit_many(self) -> None:
        """Send the whole answer now: one write of one-token events."""
        events = [self.payloads.opening()]
        for emitted in range(1, self.sequence.length + 1):
            self.sequence.emitted = emitted
            events.append(self.payloads.event(1))
        self.entry.sent_ns.extend([time_ns()] * self.sequence.length)
        self.entry.tokens.extend([1] * self.sequence.length)
        self.finish([event for event in events if event] + self.closing_events())

    def _struck(self) -> bool:
        """Carry out the fault if it is time; whether the stream is over."""
        if not self.ended and self._after is not None and self.sequence.emitted >= self._after:
            self._strike()
        return self.ended

    def _strike(self) -> None:
        match self._kind:
            case "reset_after":
                self.conn.reset()
            case "truncated_chunk":
                event = self.frame(b"data: {" + b" " * 100)
                self.send(event[: len(event) // 2])
                self.conn.close_after_sending()
            case "truncated_stream":
                self.conn.close_after_sending()
            case "no_end":
                self.finish([])
            case "error_before" | "error_after":
                self.finish([self.payloads.error(MESSAGE), DONE])
            case "error_string":
                self.finish([b"data: " + json.encode({"error": MESSAGE}) + b"\n\n"])
            case "abort":
                self.finish([*self.payloads.cut("abort"), DONE])
            case "stall":
                self.end()
            case "die":
                self.end()
                os.kill(os.getpid(), signal.SIGKILL)


def _inflated(event: bytes) -> bytes:
    """The event with _BIG_EVENT_BYTES more of text in it."""
    content: dict[str, Any] = json.decode(event.removeprefix(b"data: "))
    holder: dict[str, str] = content
    key = "text"
    if "choices" in content:
        choice = content["choices"][0]
        holder, key = (choice["delta"], "content") if "delta" in choice else (choice, "text")
    holder[key] += "x" * _BIG_EVENT_BYTES
    return b"data: " + json.encode(content) + b"\n\n"
