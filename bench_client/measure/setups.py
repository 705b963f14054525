"""What two runs ran on and with, where both say it and it differs.

Rules: docs/method.md, "Pairing".
"""

from collections.abc import Callable, Iterator

from bench_client.measure.energy import serving_gpus
from bench_client.records import Load, Run

Both = tuple[Run, Run]
Told = tuple[str | None, str | None]


def setup_differences(baseline: Run, other: Run) -> Iterator[str]:
    """A sentence each; what a run does not say is not compared."""
    both = (baseline, other)
    for what, told, effect in (
        ("hosts", _hosts(both), "which may differ in more than their names"),
        ("engine versions", _versions(both), ""),
        ("draft models", _each(both, _draft), "so acceptance differs by the head too"),
        ("dtypes", _each(both, _dtype), "so the same weights cost unlike"),
        ("attention backends", _backends(both), "so a step's cost differs by kernel too"),
        ("transports", _each(both, _transport), "so latencies hold unlike shares of the client"),
        ("request bodies", _each(both, _body), "so the sampling may differ"),
    ):
        if told[0] and told[1] and told[0] != told[1]:
            yield f"the {what} differ: {told[0]} and {told[1]}{effect and ', ' + effect}"
    simulated = [run.header.server.simulated for run in both]
    if simulated[0] != simulated[1]:
        which, rest = ("baseline", "other run") if simulated[0] else ("other run", "baseline")
        yield f"the {which} is simulated and the {rest} is not: the ratio says nothing of a model"


def unlike_work(baseline: Run, other: Run) -> str | None:
    """Why a step of one run cannot be set against one of the other; null if it can."""
    loads = _each((baseline, other), lambda run: load(run.header.plan.load))
    if loads[0] and loads[1] and loads[0] != loads[1]:
        return f"the loads differ: {loads[0]} and {loads[1]}"
    gpus = _each((baseline, other), _gpus)
    if gpus[0] and gpus[1] and gpus[0] != gpus[1]:
        return f"the GPUs differ: {gpus[0]} and {gpus[1]}"
    return None


def load(planned: Load) -> str | None:
    """In words; null where another tool did not say."""
    cap = f", at most {planned.max_concurrency} in flight" if planned.max_concurrency else ""
    held = f" held to {planned.rate_limit}" if planned.rate_limit else ""
    if planned.kind == "closed":
        known = planned.concurrency is not None
        return f"concurrency {planned.concurrency}{held}" if known else None
    if planned.request_rate is None:
        return f"all requests at once{cap}{held}"
    burst = "" if planned.burstiness in (None, 1.0) else f" of burstiness {planned.burstiness:g}"
    return f"{planned.request_rate} requests/s{burst}{cap}{held}"


def base_name(model: str | None) -> str | None:
    """The model's own name: a path or a hub owner before it says nothing about the weights."""
    return model.rstrip("/").rpartition("/")[2].casefold() if model else None


def _each(both: Both, what: Callable[[Run], str | None]) -> Told:
    return what(both[0]), what(both[1])


def _gpus(run: Run) -> str | None:
    """Kinds of those that the server is on, as far as that is known; null of one elsewhere."""
    if not run.header.server.argv:
        return None
    cards = enumerate(run.header.environment.get("gpus") or ())
    names = {str(index): str(card.get("name")) for index, card in cards}
    serving = serving_gpus(run) or tuple(names)
    return ", ".join(sorted({names[index] for index in serving if index in names})) or None


def _hosts(both: Both) -> Told:
    """Where the GPUs do not say it already."""
    gpus = _each(both, _gpus)
    if gpus[0] != gpus[1]:
        return None, None
    return _each(both, lambda run: run.header.environment.get("host"))


def _same_engine(both: Both) -> bool:
    return both[0].header.server.engine == both[1].header.server.engine


def _versions(both: Both) -> Told:
    if not _same_engine(both):
        return None, None
    return _each(both, lambda run: run.header.server.engine_version)


def _backends(both: Both) -> Told:
    if not _same_engine(both):
        return None, None
    return _each(both, lambda run: run.header.server.facts.get("attention_backend"))


def _draft(run: Run) -> str | None:
    return base_name(run.header.server.draft_model)


def _dtype(run: Run) -> str | None:
    told = run.header.server.facts.get("dtype")
    return str(told).removeprefix("torch.") if told else None


def _transport(run: Run) -> str | None:
    client = run.header.client
    if run.header.imported:
        return None
    return f"{client.transport} with {client.stamp_source or 'unknown'} stamps"


def _body(run: Run) -> str | None:
    return None if run.header.imported else str(run.header.plan.sampling.extra_body)
