"""Several workers measure one plan together: started at one instant, merged into one window."""

import asyncio
import platform
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol, Self

import msgspec

from bench_client.records import (
    Client,
    Clock,
    Events,
    Failure,
    PlannedRequest,
    RequestRecord,
    WorkerClock,
)
from bench_client.run.interrupts import Signals, signals
from bench_client.run.server_watch import ServerWatch
from bench_client.run.window import Hooks, Window
from bench_client.run.worker import Report, Task

# From "all are ready" to the common start: time enough to reach every worker.
START_DELAY_NS = 200_000_000
_LINE_BYTES = 256 * 2**20


class WorkerError(Exception):
    """No worker could do its share; one line that says why."""


class Worker(Protocol):
    """One worker as its conductor sees it."""

    task: Task

    @property
    def clock(self) -> WorkerClock | None:
        """Null on this machine."""

    async def next(self) -> Report | None:
        """Its next report; null once it is gone."""

    def start(self, start_ns: int) -> None:
        """Tell it the common start, CLOCK_REALTIME of this machine."""

    def stop(self) -> None:
        """End early, keeping what was measured."""

    def kill(self) -> None:
        """End it now. Idempotent."""


class ProcessWorker:
    """A worker in a process of this machine."""

    clock: WorkerClock | None = None

    def __init__(self, task: Task, process: asyncio.subprocess.Process) -> None:
        self.task = task
        self._process = process

    @classmethod
    async def launch(cls, task: Task) -> Self:
        """Start it and hand it its task; in a session of its own, so that Ctrl-C is ours alone."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench_client.run.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES,
            start_new_session=True,
        )
        worker = cls(task, process)
        worker._say(msgspec.json.encode(task))
        return worker

    def _say(self, line: bytes) -> None:
        if self._process.stdin:
            self._process.stdin.write(line + b"\n")

    async def next(self) -> Report | None:
        """Its next line."""
        line = await self._process.stdout.readline() if self._process.stdout else b""
        return msgspec.json.decode(line, type=Report) if line.endswith(b"\n") else None

    def start(self, start_ns: int) -> None:
        """One clock: the instant goes as it is."""
        self._say(str(start_ns).encode())

    def stop(self) -> None:
        """As Ctrl-C would."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL."""
        with suppress(ProcessLookupError):
            self._process.kill()


async def conduct(workers: Sequence[Worker], hooks: Hooks) -> Window:
    """Have all workers measure their shares from one instant on.

    A worker that is lost fails its share only: what it had not reported becomes failed records.

    Raises:
        WorkerError: a worker could not begin.
    """
    watch = ServerWatch(hooks.server_lost, hooks.on_record)

    def stop() -> None:
        _each(workers, "stop")

    def interrupt() -> None:
        hooks.on_interrupt()
        stop()

    try:
        with signals() as on_signal:
            await asyncio.gather(*(_ready(worker) for worker in workers))
            hooks.on_begin()
            on_signal.first = interrupt
            start_ns = time.time_ns() + START_DELAY_NS
            for worker in workers:
                worker.start(start_ns)
            watching = asyncio.create_task(watch.run(stop))
            reports = (_collect(worker, watch, start_ns, on_signal) for worker in workers)
            window = merge_windows(await asyncio.gather(*reports))
            window.server_lost = await watch.last_look()
            watching.cancel()
    finally:
        _each(workers, "kill")
    window.began_unix_ns = start_ns
    # The workers are interrupted by us, be it for a signal or for a server that is lost.
    window.interrupted = on_signal.came > 0
    clocks = tuple(worker.clock for worker in workers if worker.clock)
    window.client = msgspec.structs.replace(window.client, worker_clocks=clocks)
    return window


def _each(workers: Sequence[Worker], what: str) -> None:
    for worker in workers:
        getattr(worker, what)()


async def _ready(worker: Worker) -> None:
    report = await worker.next()
    if report is None or report.state != "ready":
        reason = report.error if report else "it ended before it began"
        raise WorkerError(f"worker {worker.task.worker}: {reason}")


async def _collect(worker: Worker, watch: ServerWatch, start_ns: int, on_signal: Signals) -> Window:
    missing = {request.id: request for request in worker.task.plan.requests}
    while report := await worker.next():
        if report.record:
            missing.pop(report.record.id, None)
            watch.record(report.record)
        if report.window:
            return report.window
    # One that the interruption met before it began has sent nothing.
    if not on_signal.came:
        for request in missing.values():
            watch.record(_lost(request, worker.task.worker))
    return Window(
        client=Client(
            python=platform.python_version(),
            transport=worker.task.transport.kind,
            clock=Clock(step_ns=0, checks=0),
        ),
        duration_ns=time.time_ns() - start_ns,
    )


def _lost(request: PlannedRequest, worker: str) -> RequestRecord:
    """A request whose worker is gone: nothing is known of it."""
    return RequestRecord(
        id=request.id,
        prompt_index=request.prompt_index,
        prompt_sha256=request.prompt_sha256,
        repeat=request.repeat,
        scheduled_ns=request.scheduled_ns or 0,
        sent_ns=None,
        first_token_ns=None,
        last_token_ns=None,
        done_ns=None,
        outcome="failed",
        failure=Failure("worker_lost", f"worker {worker} was lost with this request"),
        finish_reason=None,
        input_tokens=None,
        output_tokens=None,
        token_count_source=None,
        stamps="user",
        events=Events(),
        reads=0,
        accept=None,
        output_sha256=None,
        worker=worker,
    )


def merge_windows(windows: Sequence[Window]) -> Window:
    """One window from the workers': their CPU added up, the worst lag, the largest step."""
    clients = [window.client for window in windows]
    client = msgspec.structs.replace(
        clients[0],
        workers=len(windows),
        connect_ms=tuple(ms for each in clients for ms in each.connect_ms),
        cpu_s=sum(each.cpu_s or 0.0 for each in clients),
        loop_lag_ms_max=max(each.loop_lag_ms_max or 0.0 for each in clients),
        clock=Clock(
            step_ns=max(each.clock.step_ns for each in clients if each.clock),
            checks=sum(each.clock.checks for each in clients if each.clock),
        ),
    )
    return Window(
        client=client,
        duration_ns=max(window.duration_ns for window in windows),
        warmup_failures=[text for window in windows for text in window.warmup_failures],
    )
