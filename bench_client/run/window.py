"""The measured window: connections opened, warmed up, the plan run, the client's own state kept."""

import asyncio
import gc
import platform
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from bench_client.records import Client, Load, Plan, PlannedRequest, RequestRecord
from bench_client.run.runner import Runner
from bench_client.wire.payload import PATHS, Dialect, request_body
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
        OSError: the server cannot be connected to.
    """
    model, dialect = target

    def encode(request: PlannedRequest) -> OutgoingRequest:
        body = request_body(request, plan, model, dialect)
        return OutgoingRequest(request.id, PATHS[plan.api], body)

    await transport.open(connections(plan.load))
    try:
        warmup_failures = await _warm_up(plan, transport, encode)
        start_ns = hooks.on_begin()
        runner = Runner(plan, transport, encode, hooks.on_record, hooks.epoch_ns)
        window = await _run(runner, hooks, start_ns)
    finally:
        await transport.close()
    window.warmup_failures = warmup_failures
    window.client = msgspec.structs.replace(
        window.client,
        transport=transport.name,
        connect_ms=tuple(round(ms, 3) for ms in transport.connect_ms),
    )
    return window


def connections(load: Load) -> int:
    """How many connections stand open before the clock starts."""
    if load.kind == "closed":
        return load.concurrency or 1
    return min(load.max_concurrency or 64, 64)


async def _warm_up(
    plan: Plan, transport: Transport, encode: Callable[[PlannedRequest], OutgoingRequest]
) -> list[str]:
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


async def _run(runner: Runner, hooks: Hooks, start_ns: int | None) -> Window:
    window = Window(client=Client(python=platform.python_version(), transport=""))

    def interrupt() -> None:
        window.interrupted = True
        hooks.on_interrupt()
        runner.stop()

    async def watch_server() -> None:
        while window.server_lost is None:
            await asyncio.sleep(0.25)
            window.server_lost = hooks.server_lost()
        runner.stop()

    lag = _LagProbe()
    used = _cpu_s()
    helpers = [asyncio.create_task(watch_server()), asyncio.create_task(lag.run())]
    try:
        with signals(interrupt), _quiet_collector():
            window.duration_ns = await runner.run(start_ns)
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
def signals(interrupt: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the run cleanly, once; the second one does not wait."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def first(number: signal.Signals) -> None:
        loop.remove_signal_handler(number)
        signal.signal(number, before[number])
        interrupt()

    for number in before:
        loop.add_signal_handler(number, first, number)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """No pause for garbage that was there before the run."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


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
