"""What goes out for one request, as its sequence grows."""

from collections.abc import Callable
from time import time_ns

from .connection import Connection
from .payloads import DONE, Payloads
from .send_log import Entry
from .sequence import Sequence

_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\n"
    b"server: bench-client-sim\r\n"
    b"content-type: text/event-stream; charset=utf-8\r\n"
)
CHUNKED = b"transfer-encoding: chunked\r\n"


class Answer:
    """A request being answered. `on_end` is called once, when no more tokens are wanted.

    `due_ns` is its pacer's.
    """

    __slots__ = ("conn", "due_ns", "ended", "entry", "on_end", "payloads", "sequence")

    def __init__(self, conn: Connection, payloads: Payloads, entry: Entry) -> None:
        self.conn = conn
        self.payloads = payloads
        self.entry = entry
        self.sequence: Sequence = entry.sequence
        self.due_ns = 0
        self.ended = False
        self.on_end: Callable[[Answer], None] | None = None
        conn.on_close = self.end

    def begin(self, start: Callable[[], None]) -> None:
        """The request has been understood; `start` has its tokens made."""
        start()

    def emit(self, count: int) -> None:
        """The sequence has grown by `count` tokens."""
        raise NotImplementedError

    def end(self) -> None:
        """Take no more tokens: everything is sent, or the client has gone."""
        if not self.ended:
            self.ended = True
            self.conn.on_close = None
            if self.on_end:
                self.on_end(self)


class Whole(Answer):
    """The answer in one piece."""

    __slots__ = ()

    def emit(self, count: int) -> None:
        """Send the answer once it is complete."""
        if self.sequence.done:
            body = self.payloads.whole()
            self.entry.sent_ns.append(time_ns())
            self.entry.tokens.append(self.sequence.emitted)
            self.end()
            self.conn.respond(200, body)


class Stream(Answer):
    """Server-sent events, one HTTP chunk and one send call each."""

    __slots__ = ("_opened",)

    def __init__(self, conn: Connection, payloads: Payloads, entry: Entry) -> None:
        super().__init__(conn, payloads, entry)
        self._opened = False

    def begin(self, start: Callable[[], None]) -> None:
        """Send the response's head, as both engines do before the first token."""
        self.send(self.head())
        start()

    def emit(self, count: int) -> None:
        """Send the last `count` tokens, and the tail after the last one."""
        if not self._opened:
            self._opened = True
            if opening := self.payloads.opening():
                self.send(self.frame(opening))
        data = self.frame(self.token_event(count))
        self.entry.sent_ns.append(time_ns())
        self.send(data)
        self.entry.tokens.append(count)
        if self.sequence.emitted >= self.sequence.length:
            self.finish(self.closing_events())

    def finish(self, events: list[bytes]) -> None:
        """Send the last events and the end of the response in one piece."""
        self.end()  # first, so that who sees the end of a response finds it in the send log
        self.send(b"".join([self.frame(event) for event in events]) + self.terminator())
        self.conn.finished()

    # The rest is what a fault may bend.

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.conn.send(data)

    def head(self, framing: bytes = CHUNKED) -> bytes:
        """Status line and headers, among them those of the body's framing."""
        close = b"" if self.conn.keep_alive else b"connection: close\r\n"
        return _STREAM_HEAD + framing + close + b"\r\n"

    def token_event(self, count: int) -> bytes:
        """The event of the last `count` tokens."""
        return self.payloads.event(count)

    def frame(self, event: bytes) -> bytes:
        """An event as it goes on the wire."""
        return b"%x\r\n%b\r\n" % (len(event), event)

    def closing_events(self) -> list[bytes]:
        """What follows the last token."""
        return [*self.payloads.tail(), DONE]

    def terminator(self) -> bytes:
        """The end of the response's body."""
        return b"0\r\n\r\n"
