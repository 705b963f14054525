"""Workers on the nodes of a Ray cluster: each a worker process there, spoken to through an actor.

The worker is a process beside the actor, not a thread in it, so that Ray's own threads do not hold
up what is measured. Every node needs this package; a key travels in the task, through Ray.
"""

import asyncio
import logging
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import msgspec

from bench_client import __version__
from bench_client.records import WorkerClock
from bench_client.run.worker import Report, Task
from bench_client.run.workers import WorkerError
from bench_client.wire.endpoint import EndpointError

AUTO = "auto"
PINGS = 30
LAUNCH_S = 60.0
_REACH_S = 5.0
_BATCH_S = 0.2  # between two calls for lines: few enough not to disturb the node


class Seat:
    """On a node: one worker process. Its methods are called from anywhere, each in a thread."""

    def __init__(self) -> None:
        # What the actor can import, wherever Ray put it, its worker can too.
        env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        # Ray's threads block SIGINT, and a process has the mask of the thread that starts it.
        blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        self._process = subprocess.Popen(
            (sys.executable, "-m", "bench_client.run.worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
        )
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(line)
        self._lines.put(b"")

    def about(self) -> tuple[str, str]:
        """Host and version of this package."""
        return platform.node(), __version__

    def now(self) -> int:
        """CLOCK_REALTIME of the node, ns."""
        return time.time_ns()

    def say(self, line: bytes) -> None:
        """A line to the worker."""
        with suppress(BrokenPipeError):
            if self._process.stdin:
                self._process.stdin.write(line + b"\n")
                self._process.stdin.flush()

    def lines(self) -> list[bytes]:
        """Waits for the worker's next lines; none once it has ended."""
        batch = [self._lines.get()]
        if batch[0]:
            time.sleep(_BATCH_S)
        while not self._lines.empty():
            batch.append(self._lines.get())
        if not batch[-1]:
            self._lines.put(b"")  # for whoever asks again
        return [line for line in batch if line.endswith(b"\n")]

    def stop(self) -> None:
        """As Ctrl-C would."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)


class RayWorker:
    """A worker on a node, as its conductor sees it."""

    def __init__(self, task: Task, seat: Any, clock: WorkerClock) -> None:
        self.task = task
        self.clock = clock
        self._seat = seat
        self._lines: deque[bytes] = deque()

    async def next(self) -> Report | None:
        """Its next line; null too where its node is lost."""
        from ray.exceptions import RayError  # noqa: PLC0415 (an extra)

        if not self._lines:
            try:
                self._lines.extend(await self._seat.lines.remote())
            except (RayError, ConnectionError):
                return None
        return msgspec.json.decode(self._lines.popleft(), type=Report) if self._lines else None

    def start(self, start_ns: int) -> None:
        """The start on the worker's own clock."""
        self._seat.say.remote(b"%d" % (start_ns + self.clock.offset_ns))

    def stop(self) -> None:
        """As Ctrl-C would."""
        self._seat.stop.remote()

    def kill(self) -> None:
        """End the actor, and with its pipes the worker."""
        import ray  # noqa: PLC0415 (an extra)

        with suppress(ConnectionError):
            ray.kill(self._seat)


def join(address: str) -> int:
    """Connect this process to a cluster, once; how many of its nodes take work.

    `address` is Ray Client's (`HOST:10001`), or `auto` for the cluster this machine is part of.

    Raises:
        EndpointError: no ray package, or no cluster there.
    """
    try:
        import ray  # noqa: PLC0415 (an extra)
    except ModuleNotFoundError as error:
        hint = "pip install 'bench-client[ray]'"
        raise EndpointError(f"--workers ray:// needs the ray package: {hint}") from error
    if not ray.is_initialized():
        try:
            with warnings.catch_warnings(action="ignore"):
                _connect(ray, address)
        except (OSError, OverflowError, RuntimeError, ValueError, ImportError) as error:
            raise EndpointError(
                f"no Ray cluster at ray://{address}: {_one_line(error)}; give the address of its "
                "client server (port 10001), or ray://auto on a machine of the cluster"
            ) from error
    return len(_nodes(ray))


def _connect(ray: Any, address: str) -> None:
    if address != AUTO:
        host, _, port = address.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), _REACH_S).close()
    url = AUTO if address == AUTO else f"ray://{address}"
    ray.init(url, log_to_driver=False, logging_level=logging.ERROR)


def _nodes(ray: Any) -> list[str]:
    """Ids of the nodes that are up; those that offer no CPU take no work."""
    alive = [node for node in ray.nodes() if node["Alive"]]
    taking = [node for node in alive if node["Resources"].get("CPU", 0)]
    return sorted(str(node["NodeID"]) for node in taking or alive)


async def launch(tasks: Sequence[Task], address: str) -> list[RayWorker]:
    """A worker for each task, the nodes in turn.

    Raises:
        WorkerError: a node has no bench-client, another version of it, or no answer.
    """
    import ray  # noqa: PLC0415 (an extra)
    from ray.exceptions import RayError  # noqa: PLC0415 (an extra)

    join(address)
    nodes = _nodes(ray)
    seats: list[Any] = []
    try:
        for index in range(len(tasks)):
            seats.append(_seat(ray, nodes[index % len(nodes)]))
        return await asyncio.gather(*map(_seated, tasks, seats))
    except BaseException as error:
        for seat in seats:
            ray.kill(seat)
        if isinstance(error, RayError | ImportError):
            raise WorkerError(
                f"the nodes cannot begin: {_one_line(error)}; has each bench-client {__version__}?"
            ) from error
        raise


def _seat(ray: Any, node: str) -> Any:
    """An actor on that node and no other, whatever else the node is booked for."""
    from ray.util.scheduling_strategies import (  # noqa: PLC0415 (an extra)
        NodeAffinitySchedulingStrategy,
    )

    there = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
    actor = ray.remote(Seat)
    return actor.options(num_cpus=0, max_concurrency=4, scheduling_strategy=there).remote()


async def _seated(task: Task, seat: Any) -> RayWorker:
    try:
        async with asyncio.timeout(LAUNCH_S):
            host, version = await seat.about.remote()
            if version != __version__:
                raise WorkerError(
                    f"node {host} has bench-client {version}, this machine {__version__}: "
                    "install the same version on every node"
                )
            clock = await _clock(seat, task.worker, host)
            await seat.say.remote(msgspec.json.encode(_on_its_clock(task, clock)))
    except TimeoutError as error:
        raise WorkerError(f"worker {task.worker}: no answer for {LAUNCH_S:g} s") from error
    return RayWorker(task, seat, clock)


def _on_its_clock(task: Task, clock: WorkerClock) -> Task:
    if task.epoch_ns is None:
        return task
    return msgspec.structs.replace(task, epoch_ns=task.epoch_ns + clock.offset_ns)


async def _clock(seat: Any, worker: str, host: str) -> WorkerClock:
    pings = []
    for _ in range(PINGS):
        sent_ns = time.time_ns()
        theirs_ns = await seat.now.remote()
        pings.append((sent_ns, theirs_ns, time.time_ns()))
    offset_ns, uncertainty_ns = clock_offset(pings)
    return WorkerClock(worker=worker, host=host, offset_ns=offset_ns, uncertainty_ns=uncertainty_ns)


def clock_offset(pings: Sequence[tuple[int, int, int]]) -> tuple[int, int]:
    """Their clock minus ours and the most that it can be off by, in ns.

    From (sent, theirs, received) by the quickest ping (Cristian 1989): the answer was given at
    some instant of the round trip, so half of it is the bound.
    """
    sent, theirs, received = min(pings, key=lambda ping: ping[2] - ping[0])
    return theirs - (sent + received) // 2, (received - sent + 1) // 2


def _one_line(error: BaseException) -> str:
    """Of Ray's many lines that which names an error, else the last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"\w+Error: ", line)]
    return (named or lines or [type(error).__name__])[-1]
