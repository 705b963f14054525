"""What an application's client library sees, as the same raw responses. Not the instrument."""

import asyncio
import time
from collections.abc import AsyncIterator

from bench_client.records import Failure
from bench_client.wire.raw import RawResponse
from bench_client.wire.transport import Limits, OutgoingRequest


class TooLargeError(Exception):
    """The response outgrew its bound."""


class Application:
    """What both have in common: interruption, and an end to waiting."""

    name = ""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._running: set[asyncio.Task[RawResponse]] = set()
        self.connect_ms: list[float] = []

    async def exchange(self, request: OutgoingRequest) -> RawResponse:
        """One request; every failure ends in the response."""
        response = RawResponse()
        task = asyncio.ensure_future(self._filled(request, response))
        self._running.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            response.fault = Failure("interrupted", "the run was interrupted")
            response.done_ns = time.time_ns()
            return response
        finally:
            self._running.discard(task)

    async def _filled(self, request: OutgoingRequest, response: RawResponse) -> RawResponse:
        response.sent_ns = time.time_ns()
        try:
            await self._fill(request, response)
            response.clean_end = True
        except Exception as error:  # noqa: BLE001 (a library may raise anything; it is one line)
            response.fault = self._fault(error, response)
        response.done_ns = time.time_ns()
        return response

    async def _fill(self, request: OutgoingRequest, response: RawResponse) -> None:
        budget = self._limits.max_bytes
        async for at_ns, data in self._reads(request, response):
            response.reads.append((at_ns, data))
            budget -= len(data)
            if budget < 0:
                raise TooLargeError

    def _reads(
        self, request: OutgoingRequest, response: RawResponse
    ) -> AsyncIterator[tuple[int, bytes]]:
        """Send, fill in status and headers, then give (arrival, body bytes)."""
        raise NotImplementedError

    def _fault(self, error: Exception, response: RawResponse) -> Failure:
        if isinstance(error, TooLargeError):
            limit = self._limits.max_bytes >> 20
            return Failure("too_large", f"the response is larger than {limit} MiB")
        names = {kind.__name__ for kind in type(error).__mro__}
        text = str(error) or type(error).__name__
        if names & {"ConnectError", "ConnectTimeout", "APIConnectionError"} and not response.status:
            return Failure("connect", f"cannot connect: {text}")
        if names & {"TimeoutException", "APITimeoutError"}:
            return Failure("stall", f"no more for {self._limits.stall_s:g} s (--stall-timeout)")
        if "RemoteProtocolError" in names:
            return Failure("truncated" if response.status else "reset", text)
        return Failure("reset" if names & {"ReadError", "WriteError"} else "bad_http", text)

    def interrupt(self) -> None:
        """End every exchange in flight with the fault `interrupted`."""
        for task in self._running:
            task.cancel()
