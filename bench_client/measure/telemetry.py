"""Telemetry rows to their means and peaks, under the rows' own names."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from bench_client.measure.energy import Energy, gpu_rows, unix_windows
from bench_client.records import Run

Row = Mapping[str, Any]

# Bits of NVML's clocks event reasons that slow a GPU down; the others are idleness and settings.
THROTTLES = {
    0x04: "sw_power_cap",
    0x08: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
}
# A mask and a reading of a meter have no mean.
NO_FIGURES = ("throttle_reasons", "energy_j")


def run_telemetry(run: Run, energy: Energy | None) -> dict[str, Any]:
    """Of the measured window. Under `gpu`: `energy`, and of each GPU how it was held back."""
    rows = _measured(run)
    folded = fold_telemetry(rows)
    gpus = [found for _, found in gpu_rows(rows)]
    for name in dict.fromkeys(name for found in gpus for name in found):
        own = [found[name] for found in gpus if name in found]
        if told := {**_throttled(own), **_others(own)}:
            folded.setdefault("gpu", {}).setdefault(name, {}).update(told)
    if energy:
        folded.setdefault("gpu", {})["energy"] = msgspec.to_builtins(energy)
    return folded


def _measured(run: Run) -> Sequence[Row]:
    """The samples within the window; all where none is, since a short run is over between two."""
    measured = unix_windows(run)
    rows = [row for row in run.telemetry if "mark" not in row]
    within = [
        row
        for row in rows
        if any(begin <= row.get("at_unix_ns", begin) <= end for begin, end in measured)
    ]
    return within or rows


def _throttled(rows: Sequence[Row]) -> Row:
    """The share of samples in which the clocks were held back, and by what."""
    masks = [row["throttle_reasons"] for row in rows if "throttle_reasons" in row]
    if not masks:
        return {}
    reasons = Counter(name for mask in masks for bit, name in THROTTLES.items() if mask & bit)
    held = sum(any(mask & bit for bit in THROTTLES) for mask in masks)
    shares = {name: count / len(masks) for name, count in reasons.most_common()}
    return {"throttled": {"share": held / len(masks), "reasons": shares}}


def _others(rows: Sequence[Row]) -> Row:
    """Who else computed on it. Where the server itself is not named, the others are not told."""
    if not any(row.get("server_processes") for row in rows):
        return {}
    names = {name for row in rows for name in row.get("other_processes", ())}
    return {"other_processes": sorted(names)} if names else {}


def fold_telemetry(rows: Iterable[Row]) -> dict[str, Any]:
    """`{"gpu": {"util": 90}}` in many rows becomes `{"gpu": {"util": {mean, min, max}}}`.

    Instants (names in `_ns`) and values that are no numbers are left out; lists go by index.
    """
    series: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        for path, value in _numbers(row):
            series.setdefault(path, []).append(value)
    folded: dict[str, Any] = {}
    for path, values in series.items():
        inner = folded
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = {
            "mean": sum(values) / len(values),
            "min": min(values),
            "max": max(values),
        }
    return folded


def _numbers(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _numbers(inner, (*path, str(name)))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _numbers(inner, (*path, str(index)))
    elif _measures(value) and path and not path[-1].endswith("_ns") and path[-1] not in NO_FIGURES:
        yield path, float(value)


def _measures(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
