"""Measure a plan with as many workers as asked, from synchronous code."""

import asyncio
import dataclasses

import msgspec

from bench_client.records import Plan
from bench_client.run import ray_workers
from bench_client.run.lookups import run
from bench_client.run.shards import shards
from bench_client.run.transports import TransportSpec, make_transport
from bench_client.run.window import Hooks, Window, measure
from bench_client.run.worker import Task
from bench_client.run.workers import ProcessWorker, conduct
from bench_client.wire.payload import Dialect


def measure_plan(
    plan: Plan,
    transport: TransportSpec,
    target: tuple[str, Dialect],
    hooks: Hooks,
    workers: int = 1,
    ray: str | None = None,
) -> Window:
    """One worker measures in this process, more in processes of their own.

    `target` is the served model's name and the engine's dialect, `ray` the address of the cluster
    that the workers run on.

    Raises:
        OSError, WorkerError: the server cannot be connected to.
    """
    if workers == 1 and ray is None:
        return run(measure(plan, make_transport(transport), target, hooks))
    model, dialect = target
    transport = _share(transport, workers)
    tasks = [
        Task(
            worker=f"w{index}",
            plan=shard,
            transport=transport,
            model=model,
            dialect=dialect,
            epoch_ns=hooks.epoch_ns,
        )
        for index, shard in enumerate(shards(plan, workers))
    ]
    return run(_conduct(tasks, hooks, ray))


def _share(transport: TransportSpec, workers: int) -> TransportSpec:
    """One worker's part of a rate limit: the same requests over a longer period."""
    pacing = transport.pacing
    slower = dataclasses.replace(pacing, period_s=pacing.period_s * workers)
    return msgspec.structs.replace(transport, pacing=slower)


async def _conduct(tasks: list[Task], hooks: Hooks, ray: str | None) -> Window:
    if ray is not None:
        return await conduct(await ray_workers.launch(tasks, ray), hooks)
    workers = await asyncio.gather(*(ProcessWorker.launch(task) for task in tasks))
    return await conduct(workers, hooks)
