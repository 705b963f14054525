"""Whether an engine is installed, in a version that serves, with a torch that runs here."""

import re
from collections.abc import Sequence

from msgspec import structs

from .eagle_server.model import NEWEST, OLDEST, VERSIONS
from .finding import Row
from .flags import at_least
from .gpu import Gpu
from .launch import command
from .presets import SettingsError
from .probe import INSTALL, Probeable, Probed, look
from .settings import LaunchSettings

# The first driver branch for each CUDA (NVIDIA's CUDA Compatibility, minor version compatibility).
DRIVERS = {11: 450, 12: 525, 13: 580}


def engine_row(engine: Probeable, python: str, cards: Sequence[Gpu]) -> Row:
    """What `python` has of the engine, and what keeps it from serving on these GPUs."""
    try:
        seen = look(engine, python)
    except SettingsError as error:
        advice = "check --engine-python"
        return Row(name=engine, status="missing", detail=str(error), advice=advice, stops=True)
    if not seen.found:
        detail, advice = f"not in {python}", INSTALL[engine]
        return Row(name=engine, status="missing", detail=detail, advice=advice, stops=True)
    found = Row(name=engine, status="ok", detail=_detail(engine, seen))
    fault = _wrong_version(engine, seen) or _old_driver(seen, cards)
    if fault:
        return structs.replace(found, status="unusable", advice=fault, stops=True)
    if cards and not seen.accelerated:
        advice = "this torch cannot use the GPU: install the CUDA build"
        return structs.replace(found, status="warning", advice=advice)
    return found


def _detail(engine: Probeable, seen: Probed) -> str:
    """EAGLE has no version of its own that says what it runs with."""
    version = seen.version or "unknown version"
    if engine == "eagle":
        version += f", transformers {_transformers(seen) or 'missing'}"
    build = f"torch {seen.torch}" if seen.torch else "no torch"
    return f"{version}, {build}, in {seen.python}"


def _transformers(seen: Probed) -> str | None:
    return look("transformers", seen.python).version


def _wrong_version(engine: Probeable, seen: Probed) -> str | None:
    """The launcher's own refusal, or that of EAGLE's server."""
    if engine == "eagle":
        version = _transformers(seen)
        after = (NEWEST[0], NEWEST[1] + 1)
        good = version and at_least(version, OLDEST) and not at_least(version, after)
        return None if good else VERSIONS
    asked = LaunchSettings(name=engine, engine=engine, model="any", engine_version=seen.version)
    try:
        command(asked)
    except SettingsError as error:
        return str(error)
    return None


def _old_driver(seen: Probed, cards: Sequence[Gpu]) -> str | None:
    cuda = _cuda(seen)
    needed = DRIVERS.get(cuda or 0)
    driver = cards[0].driver if cards else ""
    branch = re.match(r"\d+", driver)
    if needed is None or branch is None or int(branch[0]) >= needed:
        return None
    return (
        f"driver {driver} is too old for CUDA {cuda}: update it to {needed} or later, or install a"
        f" build of the engine for an older CUDA"
    )


def _cuda(seen: Probed) -> int | None:
    """The major version of CUDA that its torch was built with."""
    told = re.match(r"\d+", seen.cuda or "")
    named = re.search(r"\+cu(\d+)\d$", seen.torch or "")  # 2.13.0+cu130
    return int(told[0]) if told else int(named[1]) if named else None
