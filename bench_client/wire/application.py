"""What an application's client library sees, as the same raw responses. Not the instrument."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from bench_client.records import Failure
from bench_client.wire.raw import RawResponse
from bench_client.wire.sse import Progress
from bench_client.wire.transport import Limits, OutgoingRequest, too_long

Reads = AsyncGenerator[tuple[int, bytes], None]


class OutgrownError(Exception):
    """The response outgrew a bound; kind and message of the failure."""


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
            caller = asyncio.current_task()
            if caller and caller.cancelling():
                raise
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
        """The libraries' own time-outs let comments pass for progress, so time is kept here."""
        budget, stall_s = self._limits.max_bytes, self._limits.stall_s
        progress, most = Progress(), request.max_events
        now = asyncio.get_running_loop().time
        async with (
            asyncio.timeout(stall_s) as deadline,
            aclosing(self._reads(request, response)) as reads,
        ):
            async for at_ns, data in reads:
                response.reads.append((at_ns, data))
                budget -= len(data)
                if budget < 0:
                    limit = self._limits.max_bytes >> 20
                    raise OutgrownError("too_large", f"the response is larger than {limit} MiB")
                if progress.made_by(data):
                    deadline.reschedule(now() + stall_s)
                if most is not None and progress.events > most:
                    raise OutgrownError("too_long", too_long(most))

    def _reads(self, request: OutgoingRequest, response: RawResponse) -> Reads:
        """Send, fill in status and headers, then give (arrival, body bytes)."""
        raise NotImplementedError

    def _fault(self, error: Exception, response: RawResponse) -> Failure:
        if isinstance(error, OutgrownError):
            return Failure(*error.args)
        if isinstance(error, TimeoutError):
            what = "no more tokens" if response.reads else "no answer"
            message = f"{what} for {self._limits.stall_s:g} s (--stall-timeout)"
            return Failure("stall", message)
        return library_fault(error, answered=response.status is not None)

    def interrupt(self) -> None:
        """End every exchange in flight with the fault `interrupted`."""
        for task in self._running:
            task.cancel()


def library_fault(error: Exception, *, answered: bool) -> Failure:
    """What httpx or the SDK raised, in the wire's words.

    By the classes' names: the SDK wraps the errors of whichever httpx it brings. `answered` says
    that the response's head had come.
    """
    causes = _causes(error)
    names = {kind.__name__ for cause in causes for kind in type(cause).__mro__}
    text = library_reason(error)
    if names & {"ConnectError", "ConnectTimeout"}:
        return Failure("connect", f"cannot connect: {text}")
    if names & {"ReadError", "WriteError"}:
        return Failure("reset", f"the server broke the connection: {text}")
    if "RemoteProtocolError" in names:
        cut = "peer closed" in text or "Server disconnected" in text
        kind = "truncated" if answered else "reset"
        return Failure(kind if cut else "bad_http", text)
    if "JSONDecodeError" in names:
        return Failure("bad_event", f"an event is not JSON: {text}")
    if "APIError" in names and answered:
        said = getattr(error, "body", None)
        return Failure("error_event", said if isinstance(said, str) else text)
    return Failure("bad_http", text)


def library_reason(error: BaseException) -> str:
    """What httpx said, without the SDK's wrapping."""
    cause = _causes(error)[0]
    return str(cause) or type(cause).__name__


def _causes(error: BaseException) -> list[BaseException]:
    """The error of httpx and what it follows from; the SDK's where there is no other."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    wrapped = [each for each in chain if type(each).__module__.partition(".")[0] != "openai"]
    return wrapped or chain
