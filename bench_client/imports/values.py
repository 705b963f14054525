"""Values of other tools' JSON: what is no number, or not finite, is null."""

import math
from collections.abc import Mapping
from typing import Any


def number(value: object) -> float | None:
    """A finite JSON number; None for infinity, NaN, a word or null."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # an integer beyond any float
        return None


def whole(value: object) -> int | None:
    """A count; None for what is none, beyond what a float counts exactly too."""
    found = number(value)
    return round(found) if found is not None and 0 <= found < 2**53 else None


def word(value: object) -> str | None:
    """A text that is not empty."""
    return value if isinstance(value, str) and value else None


def rate_of(value: object) -> float | None:
    """Requests per second; None where all go at once ("inf", infinity, null).

    ValueError for what is no rate.
    """
    try:
        return number(float(value)) if isinstance(value, str) else number(value)
    except ValueError:
        raise ValueError(f"request_rate is {value!r}, which is no number") from None


def column(entry: Mapping[str, Any], key: str, count: int) -> list[Any]:
    """One list of a detailed result; missing, it is `count` nulls."""
    values = entry.get(key)
    return list(values) if isinstance(values, list) and len(values) == count else [None] * count


def numbers(entry: Mapping[str, Any], key: str, count: int) -> list[float | None]:
    """Such a list of numbers; null for what is none."""
    return [number(value) for value in column(entry, key, count)]


def gap_lists(entry: Mapping[str, Any], key: str, count: int) -> list[list[float] | None]:
    """Such a list of lists of seconds; null for a list of which one is unknown."""
    return [_gaps(values) for values in column(entry, key, count)]


def _gaps(values: object) -> list[float] | None:
    if not isinstance(values, list):
        return None
    found = [number(value) for value in values]
    known = [value for value in found if value is not None]
    return known if len(known) == len(found) else None


def finite(values: Mapping[str, object]) -> dict[str, float | None]:
    """Figures without those that the tool could not give."""
    found = {name: number(value) for name, value in values.items()}
    return {name: value for name, value in found.items() if value is not None}
