"""Numbers as text: the one place that decides how many digits a figure deserves."""

import math
import unicodedata
from collections.abc import Callable, Iterable

UNKNOWN = "-"

Decimals = Callable[[float], int]


def ms_decimals(largest: float) -> int:
    """Decimals of a time in ms, three significant digits: 478, 43.1, 4.31, 0.431."""
    size = abs(largest)
    if size >= 100:
        return 0
    if size >= 10:
        return 1
    return 2 if size >= 1 else 3


def tps_decimals(largest: float) -> int:
    """Decimals of a rate in tok/s: 89.71, 349.9."""
    return 2 if abs(largest) < 100 else 1


def no_decimals(_largest: float) -> int:
    """Decimals of a count."""
    return 0


def two_decimals(_largest: float) -> int:
    """Decimals of an accept length, a concurrency or a ratio."""
    return 2


def number(value: float | None, decimals: int) -> str:
    """`value` with thousands separated, or `-` where it is unknown or not a number."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    text = f"{value:,.{decimals}f}"
    return text.removeprefix("-") if not text.strip("-0.,") else text


def count(value: int | None) -> str:
    """A count with thousands separated."""
    return number(value, 0)


def column(values: Iterable[float | None], decimals: Decimals) -> list[str]:
    """Values of one table column, all with the decimals of the largest, so that points line up."""
    values = list(values)
    known = [abs(value) for value in values if value is not None and math.isfinite(value)]
    places = decimals(max(known, default=0))
    return [number(value, places) for value in values]


def interval(bounds: tuple[float, float] | None, decimals: int) -> str:
    """`[lo, hi]`, or `-`."""
    if bounds is None:
        return UNKNOWN
    return f"[{number(bounds[0], decimals)}, {number(bounds[1], decimals)}]"


def times(ratio: float | None, decimals: int = 2) -> str:
    """A ratio: `2.04x`."""
    text = number(ratio, decimals)
    return text if text == UNKNOWN else f"{text}x"


def ratio_with_interval(ratio: float | None, bounds: tuple[float, float] | None) -> tuple[str, str]:
    """`2.04x` and `[1.88, 2.20]`, or `1.030x` and `[1.027, 1.034]` where two decimals hide it."""
    decimals = 3 if bounds and bounds[1] - bounds[0] < 0.02 else 2
    return times(ratio, decimals), interval(bounds, decimals)


def percent(share: float) -> str:
    """A share as a percentage with two significant digits: `12%`, `2.5%`."""
    size = abs(share)
    return f"{share:.{1 if size < 0.1 else 0}%}"


def span(begin: int, end: int | None) -> str:
    """`32-63`, and `4096+` without an end."""
    return f"{begin}+" if end is None else f"{begin}-{end}"


def duration(seconds: float | None) -> str:
    """`0:42`, `8:12`, `1:02:05`."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def plural(n: int, noun: str) -> str:
    """`1 request`, `11 requests`."""
    return f"{count(n)} {noun}{'' if n == 1 else 's'}"


def plain(text: str) -> str:
    """`text` on one line without control characters, which a server's message may bring."""
    return "".join(" " if unicodedata.category(char) == "Cc" else char for char in text)
