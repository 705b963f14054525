"""Which flags an engine takes: its --help says, else its version, else the newest is assumed."""

import re

from .settings import LaunchSettings


def takes(s: LaunchSettings, flag: str, since: tuple[int, ...]) -> bool:
    """Whether the engine takes `flag`, which came with version `since`."""
    if s.engine_help is not None:
        return re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", s.engine_help) is not None
    return at_least(s.engine_version, since)


def at_least(version: str | None, since: tuple[int, ...]) -> bool:
    """Whether `version` is `since` or later; true where it is unknown (None, or a 0.0 build)."""
    release = re.match(r"v?(\d+(?:\.\d+)*)", version or "")
    numbers = tuple(int(part) for part in release[1].split(".")) if release else ()
    return not any(numbers) or numbers >= since


def option(flag: str, value: object) -> list[str]:
    """`[flag, value]`, or nothing for None."""
    return [] if value is None else [flag, str(value)]
