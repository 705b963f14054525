"""httpcore's network seam, stamped: when bytes came, before any library worked on them."""

import ssl
import time
from typing import Any

import httpcore
import httpx


class StampedStream(httpcore.AsyncNetworkStream):
    """A network stream that remembers when its last bytes came."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self.read_ns = 0

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        data = await self._stream.read(max_bytes, timeout)
        self.read_ns = time.time_ns()
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> "StampedStream":
        return StampedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _StampedBackend(httpcore.AsyncNetworkBackend):
    """httpcore's own backend, its streams stamped."""

    def __init__(self, backend: httpcore.AsyncNetworkBackend) -> None:
        self._backend = backend

    async def connect_tcp(self, *args: Any, **kwargs: Any) -> StampedStream:
        return StampedStream(await self._backend.connect_tcp(*args, **kwargs))

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)


def stamp_reads(client: httpx.AsyncClient) -> bool:
    """Put the stamps below a client's pools; false where this httpx has no such place."""
    transports = [client._transport, *client._mounts.values()]
    pools: list[Any] = [getattr(transport, "_pool", None) for transport in transports if transport]
    if not pools or not all(hasattr(pool, "_network_backend") for pool in pools):
        return False
    for pool in pools:
        pool._network_backend = _StampedBackend(pool._network_backend)
    return True


def last_read_ns(response: httpx.Response) -> int:
    """When the bytes of a response last came: below httpx where stamped, else now."""
    stream = response.extensions.get("network_stream")
    return stream.read_ns if isinstance(stream, StampedStream) else time.time_ns()
