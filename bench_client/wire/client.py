"""The instrument: a pool of stamped connections to one server."""

import asyncio
import ssl
import time
from collections.abc import Mapping

from bench_client.wire.connection import Connection
from bench_client.wire.endpoint import Endpoint
from bench_client.wire.raw import RawResponse
from bench_client.wire.transport import Limits, OutgoingRequest


class WireTransport:
    """Sends over connections that were opened before the clock; opens more when all are busy."""

    name = "wire"

    def __init__(
        self,
        endpoint: Endpoint,
        headers: Mapping[str, str],
        limits: Limits,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._limits = limits
        self._tls = tls
        self._head = _head(endpoint, headers)
        self._idle: list[Connection] = []
        self._all: list[Connection] = []
        self._watcher: asyncio.Task[None] | None = None
        self.connect_ms: list[float] = []

    async def open(self, connections: int) -> None:
        """Connect ahead, one at a time: a listen queue is short."""
        for _ in range(connections):
            connection = Connection(self._endpoint, self._limits, self._tls)
            await connection.open()
            self.connect_ms.append(connection.connect_ms)
            self._all.append(connection)
            self._idle.append(connection)
        self._watcher = asyncio.create_task(self._watch())

    async def exchange(self, request: OutgoingRequest) -> RawResponse:
        """One request on a free connection, the one used last."""
        if self._idle:
            connection = self._idle.pop()
        else:
            connection = Connection(self._endpoint, self._limits, self._tls)
            self._all.append(connection)
        try:
            return await connection.exchange(self._encode(request), request.max_events)
        finally:
            self._idle.append(connection)

    def _encode(self, request: OutgoingRequest) -> bytes:
        head = self._head % (request.path, request.id, len(request.body))
        return head.encode("latin-1") + request.body

    async def _watch(self) -> None:
        pause = min(max(self._limits.stall_s / 8, 0.02), 0.5)
        while True:
            await asyncio.sleep(pause)
            now = time.monotonic()
            for connection in self._all:
                connection.watch(now)

    def interrupt(self) -> None:
        """End every exchange in flight with the fault `interrupted`."""
        for connection in self._all:
            connection.interrupt()

    async def close(self) -> None:
        """Close every connection."""
        if self._watcher:
            self._watcher.cancel()
        for connection in self._all:
            connection.close()
        self._all.clear()
        self._idle.clear()


def _head(endpoint: Endpoint, headers: Mapping[str, str]) -> str:
    """The request's head with three places left: path, request id, body length."""
    base = endpoint.base.replace("%", "%%")
    lines = [
        f"POST {base}%s HTTP/1.1",
        f"Host: {endpoint.authority}",
        "Content-Type: application/json",
        "Accept: text/event-stream",
        "X-Request-Id: %s",
        "Content-Length: %d",
        *(f"{name}: {value}".replace("%", "%%") for name, value in headers.items()),
    ]
    return "\r\n".join(lines) + "\r\n\r\n"
