"""One keep-alive connection that stamps what it reads."""

import asyncio
import os
import socket
import ssl
import time
from contextlib import suppress

from bench_client.wire import stamps
from bench_client.wire.endpoint import Endpoint
from bench_client.wire.exchange import Exchange
from bench_client.wire.raw import RawResponse
from bench_client.wire.tls import TlsSession
from bench_client.wire.transport import Limits, too_long

READ_BYTES = 64 * 1024


class Connection:
    """Owns one socket and runs one exchange at a time; a lost socket is opened anew."""

    def __init__(self, endpoint: Endpoint, limits: Limits, tls: ssl.SSLContext | None) -> None:
        self._endpoint = endpoint
        self._limits = limits
        self._context = tls
        self._loop = asyncio.get_running_loop()
        self._sock: socket.socket | None = None
        self._tls: TlsSession | None = None
        self._exchange = Exchange(limits.max_bytes)
        self._ended: asyncio.Future[None] | None = None
        self._sending: asyncio.Task[None] | None = None
        self._connecting: asyncio.Timeout | None = None
        self._interrupted = False
        self._used = False
        self._closed_idle = False
        self._max_events: int | None = None
        self._progress_at = 0.0
        self.connect_ms = 0.0

    async def open(self) -> None:
        """Connect, and shake hands. OSError (ssl.SSLError is one) or TimeoutError on failure."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._limits.connect_s) as self._connecting:
                sock = await self._connect()
                self._tls = await self._shake_hands(sock)
        finally:
            self._connecting = None
        self._sock = sock
        self._stamps = stamps.enable(sock)
        self._used = self._closed_idle = False
        self._loop.add_reader(sock.fileno(), self._readable, sock)
        self.connect_ms = (time.monotonic() - began) * 1e3

    async def _connect(self) -> socket.socket:
        found = await self._loop.getaddrinfo(
            self._endpoint.host, self._endpoint.port, type=socket.SOCK_STREAM
        )
        failed: OSError | None = None
        for family, kind, protocol, _, address in found:
            sock = socket.socket(family, kind, protocol)
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                await self._loop.sock_connect(sock, address)
            except OSError as error:
                sock.close()
                failed = error
            except BaseException:
                sock.close()
                raise
            else:
                return sock
        raise failed or OSError(f"no address for {self._endpoint.host}")

    async def _shake_hands(self, sock: socket.socket) -> TlsSession | None:
        if self._context is None:
            return None
        tls = TlsSession(self._context, self._endpoint.name)
        try:
            await tls.handshake(self._loop, sock)
        except BaseException:
            sock.close()
            raise
        return tls

    def close(self) -> None:
        """Drop the socket."""
        if self._sock is not None:
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()
            self._sock = self._tls = None

    async def exchange(self, request: bytes, max_events: int | None = None) -> RawResponse:
        """Send, and take the response to its end. Never raises for what the server does.

        A kept-alive connection that the server had closed is opened anew and the request sent
        again, provided that not one byte of an answer had come.
        """
        self._max_events = max_events
        while self._sock and self._readable(self._sock):  # closed meanwhile, or not to be trusted
            pass
        stale = self._used and self._sock is not None
        response = await self._attempt(request)
        fault = response.fault
        if stale and fault and fault.kind == "reset" and not self._exchange.heard:
            response = await self._attempt(request)
            response.reopened = self._exchange.heard
        return response

    async def _attempt(self, request: bytes) -> RawResponse:
        exchange = self._exchange = Exchange(self._limits.max_bytes)
        if self._interrupted:
            self.interrupt()
        elif self._sock is None:
            closed_idle = self._closed_idle
            try:
                await self.open()
            except (OSError, TimeoutError) as error:
                exchange.fail("connect", f"cannot connect: {_reason(error)}", time.time_ns())
            else:
                exchange.response.reopened = closed_idle
        if self._sock is None or exchange.done:
            return exchange.response
        exchange.response.stamps = self._stamps
        self._ended = self._loop.create_future()
        self._used = True
        self._progress_at = time.monotonic()
        exchange.response.sent_ns = time.time_ns()
        self._send(self._sock, request)
        await self._ended
        if not (self._all_sent() and exchange.keep_alive):
            self.close()
        return exchange.response

    def _send(self, sock: socket.socket, data: bytes) -> None:
        """Send at once what the kernel takes, the rest beside the reading: an answer may be early.

        What becomes of a connection that cannot be sent on, its reader sees.
        """
        sent = 0
        with suppress(OSError):
            data = self._tls.encrypt(data) if self._tls else data
            sent = sock.send(data)
        if sent < len(data):
            self._sending = asyncio.create_task(self._send_on(sock, memoryview(data)[sent:]))

    async def _send_on(self, sock: socket.socket, rest: memoryview) -> None:
        with suppress(OSError):
            await self._loop.sock_sendall(sock, rest)

    def _all_sent(self) -> bool:
        """Whether the whole request went out; the rest of one whose answer has ended never does."""
        sending, self._sending = self._sending, None
        return sending is None or not sending.cancel()

    def _readable(self, sock: socket.socket) -> bool:
        """Take one read; whether it brought anything."""
        try:
            at_ns, data = stamps.recv_stamped(sock, READ_BYTES)
            if self._tls and data:
                data = self._tls.decrypt(data)
                if not data and not self._tls.closed:
                    return True
        except BlockingIOError:
            return False
        except OSError as error:
            self._lost(time.time_ns(), _reason(error))
            return False
        exchange = self._exchange
        if not data:
            self._lost(at_ns, None)
            return False
        if self._idle:  # bytes that no request asked for, and may not be taken for the next answer
            self.close()
            return False
        exchange.take(at_ns, data)
        if exchange.done:
            self._settle()
        elif self._tls and self._tls.closed:  # TCP may stay open for long
            self._lost(at_ns, None)
        return True

    @property
    def _idle(self) -> bool:
        return self._ended is None or self._ended.done()

    def _lost(self, at_ns: int, error: str | None) -> None:
        if self._idle:
            self._closed_idle = self._ended is None or self._exchange.keep_alive
        else:
            self._exchange.lost(at_ns, error)
        self.close()
        self._settle()

    def _settle(self) -> None:
        if self._exchange.done and self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def watch(self, now: float) -> None:
        """Fail an exchange that has had no event for the stall time-out, or far too many.

        `now`: monotonic s.
        """
        if self._ended is None or self._ended.done():
            return
        if self._exchange.progressed():
            self._progress_at = now
            if self._max_events is not None and self._exchange.events > self._max_events:
                self._fail("too_long", too_long(self._max_events))
            return
        # Where the peer breaks the connection, uvloop calls the reader once and never again.
        while not self._ended.done() and self._sock and self._readable(self._sock):
            pass
        if self._exchange.progressed():
            self._progress_at = now
        elif now - self._progress_at > self._limits.stall_s:
            what = "no more tokens" if self._exchange.response.reads else "no answer"
            self._fail("stall", f"{what} for {self._limits.stall_s:g} s (--stall-timeout)")

    def interrupt(self) -> None:
        """End the exchange in flight, keeping what it has, and begin no other."""
        self._interrupted = True
        self._fail("interrupted", "the run was interrupted")
        if self._connecting:
            self._connecting.reschedule(self._loop.time())

    def _fail(self, kind: str, message: str) -> None:
        self._exchange.fail(kind, message, time.time_ns())
        self._settle()


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError) and not error.args:
        return "timed out"
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)  # asyncio writes "Connect call failed" in its place
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
