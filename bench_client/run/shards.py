"""A plan cut into shares that workers run side by side. Pure."""

import msgspec

from bench_client.plan.scenario import ScenarioError
from bench_client.records import Load, Plan


def shards(plan: Plan, workers: int) -> list[Plan]:
    """`workers` plans that together are `plan`, each with its share of the load.

    Requests are dealt out in turn, so that the shares have like prompts; an open loop keeps each
    request's instant, a closed loop splits its slots.

    Raises:
        ScenarioError: more workers than slots, or a chained scenario.
    """
    if plan.chained and workers > 1:
        raise ScenarioError("a chained scenario runs on one worker: leave --workers out")
    slots = plan.load.concurrency
    if slots is not None and workers > slots:
        raise ScenarioError(f"--workers {workers} needs --concurrency {workers} or more")
    return [
        msgspec.structs.replace(
            plan,
            load=_share(plan.load, index, workers),
            requests=plan.requests[index::workers],
            warmup=plan.warmup[index::workers],
        )
        for index in range(workers)
    ]


def _share(load: Load, index: int, workers: int) -> Load:
    def part(whole: int | None) -> int | None:
        return None if whole is None else max(1, len(range(index, whole, workers)))

    return msgspec.structs.replace(
        load, concurrency=part(load.concurrency), max_concurrency=part(load.max_concurrency)
    )
