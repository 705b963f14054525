"""What the server's GPUs drew while requests were measured. Formulas: docs/method.md, "Energy"."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from msgspec import Struct

from bench_client.measure.timeline import NS_PER_S, windows
from bench_client.records import Run

Span = tuple[int, int]
Points = Sequence[tuple[int, float]]

# A GPU that nothing computes on holds less, one that serves a model more.
SERVING_GIB = 1.0


class Energy(Struct, frozen=True, kw_only=True):
    """Of `gpus` together. `source`: the energy `counter`, or `power` samples integrated."""

    j: float
    mean_power_w: float
    j_per_output_token: float | None
    output_tok_per_j: float | None
    source: str
    gpus: tuple[str, ...]


def gpu_energy(run: Run, output_tokens: int | None) -> Energy | None:
    """Null without a GPU, or where its readings do not cover the whole window."""
    gpus, measured = serving_gpus(run), unix_windows(run)
    if not gpus or not measured:
        return None
    drawn = [_drawn(run, gpu, span) for gpu in gpus for span in measured]
    known = [each for each in drawn if each is not None]
    total = sum(joules for joules, _ in known)
    seconds = sum(end - begin for begin, end in measured) / NS_PER_S
    if len(known) < len(drawn) or seconds <= 0:
        return None
    return Energy(
        j=total,
        mean_power_w=total / seconds,
        j_per_output_token=total / output_tokens if output_tokens else None,
        output_tok_per_j=output_tokens / total if output_tokens and total > 0 else None,
        source=" and ".join(sorted({source for _, source in known})),
        gpus=gpus,
    )


def unix_windows(run: Run) -> list[Span]:
    """The measured windows in Unix ns."""
    began = run.header.began_unix_ns
    return [(began + begin, began + end) for begin, end in windows(run.records)]


def serving_gpus(run: Run) -> tuple[str, ...]:
    """Those that the server's processes are on.

    Where NVML does not name them (in a container, or of a server that ran before), those whose
    used memory speaks for it.
    """
    rows = list(gpu_rows(run.telemetry))
    names = sorted({name for _, gpus in rows for name in gpus})
    named = {name for _, gpus in rows for name in gpus if gpus[name].get("server_processes")}
    if named:
        return tuple(name for name in names if name in named)
    before = _used_before(run) if run.header.server.argv else {}
    return tuple(
        name
        for name in names
        if max(_series(rows, name, "memory_used_gib"), default=0.0)
        >= before.get(name, 0.0) + SERVING_GIB
    )


def gpu_rows(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(Unix ns, GPUs by name) of each row that has them."""
    for row in rows:
        gpus, at = row.get("gpu"), row.get("at_unix_ns")
        if isinstance(gpus, Mapping) and isinstance(at, int):
            yield at, gpus


def _used_before(run: Run) -> dict[str, float]:
    """Memory in use before the server was launched."""
    described = run.header.environment.get("gpus") or ()
    return {str(i): each.get("memory_used_gib") or 0.0 for i, each in enumerate(described)}


def _series(rows: Iterable[tuple[int, Mapping[str, Any]]], name: str, field: str) -> list[float]:
    return [gpus[name][field] for _, gpus in rows if field in gpus.get(name, {})]


def _drawn(run: Run, gpu: str, span: Span) -> tuple[float, str] | None:
    """(J, by what) of one GPU over one window."""
    counted = _points(run, gpu, "energy_j")
    if _cover(counted, span):
        begin, end = np.interp(span, *_axes(counted))
        if end > begin:  # a counter may stand still where it is not supported
            return float(end - begin), "counter"
    sampled = _points(run, gpu, "power_w")
    return (_integrated(sampled, span), "power") if _cover(sampled, span) else None


def _points(run: Run, gpu: str, field: str) -> Points:
    rows = gpu_rows(run.telemetry)
    return [(at, gpus[gpu][field]) for at, gpus in rows if field in gpus.get(gpu, {})]


def _cover(points: Points, span: Span) -> bool:
    return bool(points) and points[0][0] <= span[0] and points[-1][0] >= span[1]


def _integrated(points: Points, span: Span) -> float:
    """By the trapezoidal rule, in J."""
    begin, end = span
    at = np.array(list(chain([begin], (x for x, _ in points if begin < x < end), [end])))
    watts = np.interp(at, *_axes(points))
    return float(np.dot((watts[1:] + watts[:-1]) / 2, np.diff(at)) / NS_PER_S)


def _axes(points: Points) -> tuple[list[int], list[float]]:
    return [at for at, _ in points], [value for _, value in points]
