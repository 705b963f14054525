"""The measured window: connections opened, warmed up, the plan run, the client's own state kept."""

import asyncio
import gc
import platform
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from bench_client.records import Client, Load, Plan, PlannedRequest, RequestRecord
from bench_client.run.interrupts import Signals, signals
from bench_client.run.preamble import preamble_events
from bench_client.run.runner import Encode, Runner
from bench_client.run.server_watch import ServerWatch
from bench_client.wire import open_files
from bench_client.wire.payload import PATHS, Dialect, max_events, request_body
from bench_client.wire.transport import OutgoingRequest, Transport

_LAG_PROBE_S = 0.05


@dataclass(slots=True)
class Hooks:
    """What the window tells its owner, and asks of it.

    `on_begin` is called when all is ready; it may name the instant (CLOCK_REALTIME, ns) at which
    to start. `server_lost` names the reason once the server is dead. Records count from
    `epoch_ns`, null: from the start of the clock.
    """

    on_record: Callable[[RequestRecord], None]
    on_begin: Callable[[], int | None] = lambda: None
    server_lost: Callable[[], str | None] = lambda: None
    on_interrupt: Callable[[], None] = lambda: None
    epoch_ns: int | None = None


class Window(Struct, kw_only=True):
    """What the window leaves behind beside its records."""

    client: Client
    began_unix_ns: int = 0
    duration_ns: int = 0
    interrupted: bool = False
    server_lost: str | None = None
    warmup_failures: list[str] = []


async def measure(
    plan: Plan, transport: Transport, target: tuple[str, Dialect], hooks: Hooks
) -> Window:
    """Warm up, run the plan, close. `target`: the served model's name and the engine's dialect.

    Raises:
        OSError: the server cannot be connected to, or not so often.
    """
    model, dialect = target

    def encode(request: PlannedRequest) -> OutgoingRequest:
        body = request_body(request, plan, model, dialect)
        return OutgoingRequest(request.id, PATHS[plan.api], body, max_events(request, plan))

    open_files.allow(connections(plan))
    with signals() as on_signal:
        try:
            await transport.open(connections(plan))
            preamble = 0
            if dialect == "transformers" and plan.api == "chat":
                preamble = await preamble_events(plan, transport, encode)
            warmup_failures = await _warm_up(plan, transport, encode)
            work = (plan, transport, encode, preamble)
            window = await _run(work, hooks, on_signal)
        finally:
            await transport.close()
    window.interrupted = on_signal.came > 0
    window.warmup_failures = warmup_failures
    window.client = msgspec.structs.replace(
        window.client,
        transport=transport.name,
        connect_ms=tuple(round(ms, 3) for ms in transport.connect_ms),
    )
    return window


def connections(plan: Plan) -> int:
    """How many connections stand open before the clock starts: no more than requests."""
    load = plan.load
    slots = load.concurrency or 1 if load.kind == "closed" else min(load.max_concurrency or 64, 64)
    return max(min(slots, len(plan.requests)), 1)


async def _warm_up(plan: Plan, transport: Transport, encode: Encode) -> list[str]:
    if not plan.warmup:
        return []
    failures: list[str] = []
    warm = msgspec.structs.replace(plan, requests=plan.warmup, load=_closed(plan.load))

    def note(record: RequestRecord) -> None:
        if record.failure:
            failures.append(f"{record.failure.kind}: {record.failure.message}")

    await Runner(warm, transport, encode, note).run()
    return failures


def _closed(load: Load) -> Load:
    return Load(kind="closed", concurrency=load.concurrency or 1)


async def _run(
    work: tuple[Plan, Transport, Encode, int], hooks: Hooks, on_signal: Signals
) -> Window:
    start_ns = hooks.on_begin()
    window = Window(client=Client(python=platform.python_version(), transport=""))
    watch = ServerWatch(hooks.server_lost, hooks.on_record)
    plan, transport, encode, preamble = work
    runner = Runner(plan, transport, encode, watch.record, hooks.epoch_ns, preamble)

    def interrupt() -> None:
        hooks.on_interrupt()
        runner.stop()

    on_signal.first = interrupt
    lag = _LagProbe()
    used = _cpu_s()
    helpers = [asyncio.create_task(watch.run(runner.stop)), asyncio.create_task(lag.run())]
    try:
        with _quiet_collector():
            window.duration_ns = await runner.run(start_ns)
        window.server_lost = await watch.last_look()
    finally:
        for helper in helpers:
            helper.cancel()
    window.began_unix_ns = runner.began_ns
    window.client = msgspec.structs.replace(
        window.client,
        cpu_s=round(_cpu_s() - used, 4),
        loop_lag_ms_max=round(lag.worst_ms, 3),
        clock=runner.clock,
    )
    return window


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """No pause while measuring: with many streams a collection takes up to 20 ms."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _LagProbe:
    """The largest lateness of a timer on this loop, in ms: how far the loop fell behind."""

    def __init__(self) -> None:
        self.worst_ms = 0.0

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _LAG_PROBE_S
            await asyncio.sleep(_LAG_PROBE_S)
            self.worst_ms = max(self.worst_ms, (loop.time() - due) * 1e3)


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
