"""The network seam: what the runner asks of a transport."""

from dataclasses import dataclass
from typing import Protocol

from bench_client.wire.raw import RawResponse


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one exchange: seconds without progress, seconds to connect, bytes in all."""

    stall_s: float = 120.0
    connect_s: float = 10.0
    max_bytes: int = 256 * 2**20


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request ready to go: path below the endpoint's base, and a JSON body."""

    id: str
    path: str
    body: bytes


class Transport(Protocol):
    """Sends requests and returns stamped responses; failures are in the response, not raised."""

    name: str
    connect_ms: list[float]

    async def open(self, connections: int) -> None:
        """Connect ahead of the clock; a server that cannot be reached raises OSError."""

    async def exchange(self, request: OutgoingRequest) -> RawResponse:
        """Send one request and take its response to the end."""

    def interrupt(self) -> None:
        """End every exchange in flight with the fault `interrupted`."""

    async def close(self) -> None:
        """Close every connection."""
