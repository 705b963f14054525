"""The `name: number` parts of an engine's log line."""

import re
from math import isfinite

Span = tuple[int, int]

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?|True|False")


def fields(body: str) -> dict[str, float]:
    """The `name: number` parts of a comma-separated line; the first of a name wins."""
    found: dict[str, float] = {}
    for part in re.split(r"[,，]", " ".join(body.split())):
        name, colon, value = part.partition(":")
        number = _NUMBER.match(value.strip())
        if colon and number:
            text = number.group()
            read = float(text == "True") if text[0] in "TF" else float(text)
            if isfinite(read):  # hundreds of digits are not
                found.setdefault(name.strip(" ."), read)
    return found


def whole(value: float | None) -> int | None:
    """A count, null where it is not there."""
    return None if value is None else int(value)
