"""Telemetry rows to their means and peaks, under the rows' own names."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def fold_telemetry(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
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
    elif _measures(value) and path and not path[-1].endswith("_ns"):
        yield path, float(value)


def _measures(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
