"""One worker: a share of the plan in a process of its own.

Speaks lines of JSON. In: a `Task`, then the instant to start at. Out: `ready`, each record as it
ends, and the `Window` last. A key travels in the task, never in argv.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Literal, NoReturn

import msgspec
from msgspec import Struct

from bench_client.records import Plan, RequestRecord
from bench_client.run.lookups import run
from bench_client.run.transports import TransportSpec, make_transport
from bench_client.run.window import Hooks, Window, measure
from bench_client.wire.endpoint import EndpointError
from bench_client.wire.payload import Dialect

Line = Callable[[bytes], None]


class Task(Struct, frozen=True, kw_only=True):
    """What a worker is to do."""

    worker: str
    plan: Plan
    transport: TransportSpec
    model: str
    dialect: Dialect
    epoch_ns: int | None = None


class Report(Struct, kw_only=True, omit_defaults=True):
    """One line of a worker's output: exactly one field is set."""

    state: Literal["ready", "interrupted"] | None = None
    record: RequestRecord | None = None
    window: Window | None = None
    error: str | None = None


def work(task: Task, await_start: Callable[[], int], say: Callable[[Report], None]) -> None:
    """Run a task: `await_start` blocks until the common start is known, `say` reports."""

    def on_begin() -> int:
        say(Report(state="ready"))
        return await_start()

    hooks = Hooks(
        on_record=lambda record: say(
            Report(record=msgspec.structs.replace(record, worker=task.worker))
        ),
        on_begin=on_begin,
        on_interrupt=lambda: say(Report(state="interrupted")),
        epoch_ns=task.epoch_ns,
    )
    try:
        transport = make_transport(task.transport)
        window = run(measure(task.plan, transport, (task.model, task.dialect), hooks))
    except EndpointError as error:  # what a worker elsewhere lacks: a file, a package
        say(Report(error=str(error)))
    except (OSError, TimeoutError) as error:
        why = str(error) or "no answer in time"
        say(Report(error=f"cannot connect to {task.transport.url}: {why}"))
    else:
        say(Report(window=window))


def main() -> None:
    """`python -m bench_client.run.worker`, spoken to over stdin and stdout."""
    line = sys.stdin.buffer.readline()
    if not line:
        _leave()
    task = msgspec.json.decode(line, type=Task)

    def say(report: Report) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
        sys.stdout.buffer.flush()

    def await_start() -> int:
        start = sys.stdin.buffer.readline()
        if not start:
            _leave()
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), _leave)
        return int(start)

    try:
        work(task, await_start, say)
    except (KeyboardInterrupt, BrokenPipeError):
        _leave()


def _leave() -> NoReturn:
    """At once and without a word: the parent is gone, or wants nothing more."""
    os._exit(1)


if __name__ == "__main__":
    main()
