"""A plan, a transport and the clock, to records."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import coroutine

import msgspec

from bench_client.plan.build import with_previous_answer
from bench_client.records import Clock, Plan, PlannedRequest, RequestRecord
from bench_client.run.record import make_record
from bench_client.wire.raw import RawResponse
from bench_client.wire.response import read_response, reading
from bench_client.wire.stream import StreamResult
from bench_client.wire.transport import OutgoingRequest, Transport

Encode = Callable[[PlannedRequest], OutgoingRequest]
Sink = Callable[[RequestRecord], None]

# A slot that cannot connect waits so long before its next request: whoever watches the server
# finds out meanwhile, and thousands of requests need not fail.
RECONNECT_NS = 100_000_000


_in_turns = coroutine(reading)  # each pause is one turn of the loop


class Runner:
    """Runs one plan once. `stop()` ends it early; what was measured so far is in the sink.

    Records count from `epoch_ns` (CLOCK_REALTIME), null: from the start of the clock. The first
    `preamble` events of text of an answer are no tokens (see preamble.py).
    """

    def __init__(
        self,
        plan: Plan,
        transport: Transport,
        encode: Encode,
        sink: Sink,
        epoch_ns: int | None = None,
        preamble: int = 0,
    ) -> None:
        self._plan = plan
        self._transport = transport
        self._encode = encode
        self._sink = sink
        self._epoch_ns = epoch_ns
        self._preamble = preamble
        self._ready: dict[str, OutgoingRequest] = {}
        self._stopping = False
        self._stopped = asyncio.Event()
        self._unread: deque[tuple[PlannedRequest, int, RawResponse]] = deque()
        self._reader: asyncio.Task[None] | None = None
        self.began_ns = 0
        self.clock = Clock(step_ns=0, checks=0)

    async def run(self, start_ns: int | None = None) -> int:
        """Send everything planned; the measured window's length in ns.

        `start_ns` (CLOCK_REALTIME) is when the clock starts, for workers that start together.
        """
        requests = self._plan.requests
        # Waits and durations are by the monotonic clock: the other may be set meanwhile.
        self._offset_ns = time.time_ns() - time.monotonic_ns()
        # The bodies are made before the clock starts.
        self._ready = {r.id: self._encode(r) for r in requests if not r.chained}
        if start_ns:
            await self._wait_until(start_ns)
        self.began_ns = start_ns or self._now_ns()
        if self._plan.load.kind == "closed":
            await self._closed(iter(requests))
        else:
            await self._open(requests)
        ended_ns = self._now_ns()
        if self._reader:  # what is still to be read is no part of the window
            await self._reader
        self._check_clock()
        return ended_ns - self.began_ns

    def stop(self) -> None:
        """Send no more, and end what is in flight."""
        self._stopping = True
        self._stopped.set()
        self._transport.interrupt()

    async def _closed(self, pending: Iterator[PlannedRequest]) -> None:
        slots = min(self._plan.load.concurrency or 1, len(self._plan.requests))
        running = []
        for _ in range(slots):
            running.append(asyncio.create_task(self._slot(pending, slots)))
            await asyncio.sleep(0)  # answers are read while the other slots begin
        await asyncio.gather(*running)

    async def _slot(self, pending: Iterator[PlannedRequest], slots: int) -> None:
        """One slot of the closed loop: the next request leaves when the last has ended."""
        free_ns = self.began_ns
        answer = ""
        for planned in pending:
            request = with_previous_answer(planned, answer) if planned.chained else planned
            raw = await self._send(request)
            if slots > 1:
                # The slot's next request leaves first; reading the answer can wait.
                self._keep(request, free_ns, raw)
            else:
                answer = self._read(request, free_ns, raw).text
            free_ns = raw.done_ns or time.time_ns()
            if raw.fault and raw.fault.kind == "connect":
                free_ns += RECONNECT_NS
                await self._pause(RECONNECT_NS)
            if self._stopping:
                return

    async def _open(self, requests: tuple[PlannedRequest, ...]) -> None:
        cap = self._plan.load.max_concurrency
        gate = asyncio.Semaphore(cap or len(requests) or 1)
        tasks = []
        for request in requests:
            due_ns = self.began_ns + (request.scheduled_ns or 0)
            await self._wait_until(due_ns)
            if self._stopping:
                break
            tasks.append(asyncio.create_task(self._one(request, due_ns, gate)))
        await asyncio.gather(*tasks)

    async def _one(self, request: PlannedRequest, due_ns: int, gate: asyncio.Semaphore) -> None:
        async with gate:
            if self._stopping:
                return
            raw = await self._send(request)
        self._keep(request, due_ns, raw)

    async def _wait_until(self, due_ns: int) -> None:
        await self._pause(due_ns - self._now_ns())

    async def _pause(self, ns: int) -> None:
        if ns > 0 and not self._stopping:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), ns / 1e9)

    async def _send(self, request: PlannedRequest) -> RawResponse:
        ready = self._ready.pop(request.id, None) or self._encode(request)
        return await self._transport.exchange(ready)

    def _keep(self, request: PlannedRequest, scheduled_ns: int, raw: RawResponse) -> None:
        """To be read when the network leaves time."""
        self._unread.append((request, scheduled_ns, raw))
        reader = self._reader
        if reader is None or (reader.done() and not reader.exception()):
            self._reader = asyncio.create_task(self._read_all())

    async def _read_all(self) -> None:
        """One answer at a time, and the sockets between: hundreds may end at once, and reading
        them in one go would let the kernel join events and forget their stamps.
        """
        while self._unread:
            await asyncio.sleep(0)  # the sockets first
            request, scheduled_ns, raw = self._unread.popleft()
            try:
                result = await _in_turns(raw, self._plan.api, self._preamble)
                self._record(request, scheduled_ns, raw, result)
            except BaseException:  # what cannot be kept (a full disk) is not worth measuring
                self.stop()
                raise

    def _read(self, request: PlannedRequest, scheduled_ns: int, raw: RawResponse) -> StreamResult:
        result = read_response(raw, self._plan.api, self._preamble)
        self._record(request, scheduled_ns, raw, result)
        return result

    def _record(
        self, request: PlannedRequest, scheduled_ns: int, raw: RawResponse, result: StreamResult
    ) -> None:
        self._check_clock()
        self._sink(make_record(request, scheduled_ns, raw, result, self._epoch_ns or self.began_ns))

    def _now_ns(self) -> int:
        """CLOCK_REALTIME as it would be without a step since the run began."""
        return time.monotonic_ns() + self._offset_ns

    def _check_clock(self) -> None:
        step = abs(time.time_ns() - self._now_ns())
        self.clock = msgspec.structs.replace(
            self.clock, step_ns=max(step, self.clock.step_ns), checks=self.clock.checks + 1
        )
