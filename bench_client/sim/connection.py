"""One client's connection: HTTP/1.1 requests in, bytes out, on a non-blocking socket."""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus

import httptools

from bench_client.wire.stamps import recv_stamped

_READ_SIZE = 65_536
_NO_LINGER = struct.pack("ii", 1, 0)  # close sends RST


@dataclass(slots=True)
class Request:
    """A complete request; `received_ns` is when its last bytes reached this host."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    received_ns: int
    keep_alive: bool


Handler = Callable[["Connection", Request], None]


@dataclass(slots=True)
class _Partial:
    """A request that is still coming in."""

    target: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    body: list[bytes] = field(default_factory=list)


class Connection:
    """Hands requests to `handle` one at a time; whoever answers calls `finished`."""

    def __init__(
        self, sock: socket.socket, loop: asyncio.AbstractEventLoop, handle: Handler
    ) -> None:
        self.sock = sock
        self.loop = loop
        self.keep_alive = True
        self.closed = False
        self.on_close: Callable[[], None] | None = None
        self._handle = handle
        self._parser = httptools.HttpRequestParser(self)
        self._partial = _Partial()
        self._received_ns = 0
        self._requests: deque[Request] = deque()
        self._busy = False
        self._unsent = bytearray()
        self._closing = False
        loop.add_reader(sock.fileno(), self._readable)

    def send(self, data: bytes) -> None:
        """Send now, or as soon as a full socket has room again."""
        if self._unsent:
            self._unsent += data
            return
        try:
            sent = self.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return
        if sent < len(data):
            self._unsent += data[sent:]
            self.loop.add_writer(self.sock.fileno(), self._writable)

    def respond(
        self,
        status: int,
        body: bytes,
        content_type: str = "application/json",
        extra: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Send a whole response."""
        headers = (
            ("server", "bench-client-sim"),
            ("content-type", content_type),
            ("content-length", str(len(body))),
            *extra,
            *(() if self.keep_alive else (("connection", "close"),)),
        )
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        start = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        self.send(f"{start}{lines}\r\n".encode() + body)
        self.finished()

    def finished(self) -> None:
        """The response is complete: go on to the next request, or close."""
        self._busy = False
        if self.keep_alive:
            self._next()
        else:
            self.close_after_sending()

    def close_when_idle(self, after_s: float) -> None:
        """Close after that time unless a request is being answered then."""
        self.loop.call_later(after_s, self._close_if_idle)

    def close_after_sending(self) -> None:
        """Close in order (FIN) once everything is sent."""
        self._closing = True
        if not self._unsent:
            self.close()

    def reset(self) -> None:
        """Close with RST."""
        if not self.closed:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self.close()

    def close(self) -> None:
        """Close now."""
        if self.closed:
            return
        self.closed = True
        self.loop.remove_reader(self.sock.fileno())
        self.loop.remove_writer(self.sock.fileno())
        self.sock.close()
        if self.on_close:
            self.on_close()

    def _close_if_idle(self) -> None:
        if not self._busy:
            self.close()

    def _readable(self) -> None:
        try:
            self._received_ns, data = recv_stamped(self.sock, _READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if not data:
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.keep_alive = False
            self.respond(400, b"Invalid HTTP request received.", "text/plain")

    def _writable(self) -> None:
        try:
            del self._unsent[: self.sock.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if not self._unsent:
            self.loop.remove_writer(self.sock.fileno())
            if self._closing:
                self.close()

    def _next(self) -> None:
        if self._requests and not self._busy and not self.closed:
            self._busy = True
            request = self._requests.popleft()
            self.keep_alive = request.keep_alive
            self._handle(self, request)

    # What httptools calls while it parses.

    def on_url(self, url: bytes) -> None:
        """A piece of the request target."""
        self._partial.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._partial.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._partial.body.append(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        partial, self._partial = self._partial, _Partial()
        self._requests.append(
            Request(
                method=self._parser.get_method().decode("ascii"),
                target=partial.target.decode("latin-1"),
                headers=partial.headers,
                body=b"".join(partial.body),
                received_ns=self._received_ns,
                keep_alive=self._parser.should_keep_alive(),
            )
        )
        self._next()
