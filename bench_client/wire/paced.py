"""For hosted APIs: no more requests than a rate allows, and a wait where the server asks for it."""

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from asyncio_throttle.throttler import Throttler

from bench_client.records import Failure
from bench_client.wire.raw import RawResponse
from bench_client.wire.transport import OutgoingRequest, Transport

TOO_MANY_REQUESTS = 429
ATTEMPTS = 10
DEFAULT_WAIT_S = 1.0
LONGEST_WAIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Pacing:
    """`requests` (null: no limit) per `period_s`; whether a 429 is waited for and sent again."""

    requests: int | None = None
    period_s: float = 1.0
    retry_429: bool = False


class PacedTransport:
    """A transport under a rate limit.

    Waiting happens before `sent_ns` is stamped: it shows as queueing, never as latency. Answers of
    429 that were waited for are counted in the response.
    """

    def __init__(self, inner: Transport, pacing: Pacing) -> None:
        self._inner = inner
        self._retry = pacing.retry_429
        self._throttle = (
            Throttler(rate_limit=pacing.requests, period=pacing.period_s)
            if pacing.requests
            else None
        )
        self._interrupted = asyncio.Event()
        self.name = inner.name
        self.connect_ms = inner.connect_ms

    async def open(self, connections: int) -> None:
        """As the inner transport."""
        await self._inner.open(connections)

    async def exchange(self, request: OutgoingRequest) -> RawResponse:
        """One request, sent when the rate allows, and again after a 429 where asked."""
        for refused in range(ATTEMPTS):
            if not await self._unless_interrupted(self._turn()):
                return RawResponse(fault=Failure("interrupted", "the run was interrupted"))
            response = await self._inner.exchange(request)
            response.rate_limited = refused
            if response.status != TOO_MANY_REQUESTS or not self._retry:
                break
            wait_s = retry_after_s(response, time.time())
            if not await self._unless_interrupted(asyncio.sleep(wait_s)):
                break
        return response

    async def _turn(self) -> None:
        if self._throttle:
            await self._throttle.acquire()  # type: ignore[no-untyped-call]

    async def _unless_interrupted(self, waiting: Coroutine[Any, Any, None]) -> bool:
        """Wait; false where the run was interrupted meanwhile."""
        both = (asyncio.ensure_future(waiting), asyncio.ensure_future(self._interrupted.wait()))
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for task in both:
            task.cancel()
        return not self._interrupted.is_set()

    def interrupt(self) -> None:
        """End every exchange and every wait."""
        self._interrupted.set()
        self._inner.interrupt()

    async def close(self) -> None:
        """As the inner transport."""
        await self._inner.close()


def retry_after_s(response: RawResponse, now: float) -> float:
    """The wait that a Retry-After header asks for, in seconds or as a date; bounded."""
    asked = response.headers.get("retry-after", "")
    try:
        seconds = float(asked)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(asked).timestamp() - now
        except ValueError:
            seconds = DEFAULT_WAIT_S
    return min(max(seconds, 0.0), LONGEST_WAIT_S)
