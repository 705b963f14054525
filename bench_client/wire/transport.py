"""The network seam: what the runner asks of a transport."""

from dataclasses import dataclass
from typing import Protocol

from bench_client.wire.raw import RawResponse

# A second one would contradict the first, or change where a message ends.
OWN_HEADERS = frozenset(
    {
        *("host", "content-type", "content-length", "transfer-encoding", "content-encoding"),
        *("accept", "accept-encoding", "x-request-id", "expect", "te", "upgrade"),
    }
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one exchange: seconds without progress, seconds to connect, bytes in all."""

    stall_s: float = 120.0
    connect_s: float = 10.0
    max_bytes: int = 256 * 2**20


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request ready to go: path below the endpoint's base, and a JSON body.

    An answer of more than `max_events` is cut off as `too_long`, null: of no number.
    """

    id: str
    path: str
    body: bytes
    max_events: int | None = None


def too_long(max_events: int) -> str:
    """What is wrong with an answer that does not end."""
    return (
        f"the answer went on past {max_events} events, far more than the tokens asked for: "
        "does the server heed max_tokens?"
    )


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
