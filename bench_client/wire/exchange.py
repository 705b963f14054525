"""One HTTP/1.1 response from stamped bytes. Owns no socket and no clock.

`take` is the hot path: it strips the framing (httptools, in C) and keeps stamp and body bytes.
What they mean is read after the response has ended.
"""

import httptools

from bench_client.records import Failure
from bench_client.wire.raw import RawResponse
from bench_client.wire.sse import Progress

_UPGRADED = 101  # of the statuses below 200 the one that ends an exchange


class Exchange:
    """Feed it what was read until `done`; `response` then holds everything that came.

    The methods named `on_...` are called by httptools.
    """

    def __init__(self, max_bytes: int) -> None:
        self.response = RawResponse()
        self.done = False
        self.heard = False
        self.keep_alive = False
        self._max_bytes = max_bytes
        self._bytes = 0
        self._seen = 0
        self._progress = Progress()
        self._complete = self._headers_complete = False
        self._last_body = 0
        self._bodies: list[bytes] = []
        self.on_body = self._bodies.append
        self._parser = httptools.HttpResponseParser(self)

    def take(self, at_ns: int, data: bytes) -> None:
        """Bytes that arrived at `at_ns`."""
        response = self.response
        self.heard = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._complete:  # after the end it is bytes that no one asked for
                self.fail("bad_http", f"not an HTTP response: {error}", at_ns)
                return
            self.keep_alive = False
        bodies = self._bodies
        if self._complete:
            del bodies[self._last_body :]
        if bodies:
            response.reads.append((at_ns, bodies[0] if len(bodies) == 1 else b"".join(bodies)))
            bodies.clear()
        if self._complete:
            response.clean_end = True
            self._end(at_ns)
            return
        self._bytes += len(data)
        if self._bytes > self._max_bytes:
            limit = self._max_bytes >> 20
            self.fail("too_large", f"the response is larger than {limit} MiB", at_ns)

    def lost(self, at_ns: int, error: str | None) -> None:
        """The peer closed (`error` null) or broke the connection."""
        if error is not None:
            self.fail("reset", f"the server broke the connection: {error}", at_ns)
        elif not self.heard:
            self.fail("reset", "the server closed the connection without an answer", at_ns)
        elif self._close_delimited:
            self.response.clean_end = True
            self._end(at_ns)
        else:
            self.fail("truncated", "the connection closed inside the response", at_ns)

    def fail(self, kind: str, message: str, at_ns: int) -> None:
        """End with a fault, unless it has ended; what came before is kept."""
        if not self.done:
            self.response.fault = Failure(kind, message)
            self._end(at_ns)

    def progressed(self) -> bool:
        """Whether an event came since this was last asked. Comments are no progress."""
        reads = self.response.reads
        new = b"".join([body for _, body in reads[self._seen :]])
        self._seen = len(reads)
        return self._progress.made_by(new)

    @property
    def events(self) -> int:
        """How many events `progressed` has seen."""
        return self._progress.events

    @property
    def _close_delimited(self) -> bool:
        headers = self.response.headers
        chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        framed = chunked or "content-length" in headers
        return self._headers_complete and not framed

    def _end(self, at_ns: int) -> None:
        if self.response.fault:
            self.keep_alive = False
        self.response.done_ns = at_ns
        self.done = True
        del self._parser  # it holds this object: a cycle for each response, with the collector off

    def on_message_begin(self) -> None:
        """After the end: a message that no one asked for."""
        if self._complete:
            self.keep_alive = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which nothing here needs."""
        if not self._headers_complete:
            self.response.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The status is known."""
        if not self._complete:
            self._headers_complete = True
            self.response.status = self._parser.get_status_code()

    def on_message_complete(self) -> None:
        """The framing says that this was all, unless it was an interim response."""
        if self._complete:
            return
        status = self._parser.get_status_code()
        if status < 200 and status != _UPGRADED:
            self._headers_complete = False
            self.response.status = None
            self.response.headers.clear()
            return
        self._complete = True
        self._last_body = len(self._bodies)
        self.keep_alive = self._parser.should_keep_alive()
