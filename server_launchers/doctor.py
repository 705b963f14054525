"""What is here to launch with: engines, GPUs, ports, disk. Facts for `bench-client doctor`."""

import os
import shutil
from pathlib import Path
from typing import Literal, get_args

import psutil
from msgspec import Struct

from . import ports
from .gpu import Gpu, gpus
from .presets import Presets, SettingsError
from .probe import INSTALL, Probeable, find_python, look
from .settings import HOST, PORT

GIB = 2**30
RESULTS_GIB = 1  # a long run's records and logs
WEIGHTS_GIB = 20  # one 8B model in 16 bits and its head
BUSY_GIB = 1


class Row(Struct, frozen=True, kw_only=True):
    """One finding. `advice` says what to do, where there is something."""

    name: str
    status: Literal["ok", "warning", "missing"]
    detail: str
    advice: str = ""


def rows(presets: Presets, results: Path, engine_python: str | None = None) -> tuple[Row, ...]:
    """Every finding, in the order to read them. Takes a second or two; never raises."""
    cards = gpus()
    engines = [_engine(each, presets, engine_python, cards) for each in get_args(Probeable)]
    return (
        *engines,
        *_gpus(cards),
        *_ports(presets),
        _memory(),
        _disk("disk for results", results, RESULTS_GIB),
        _disk("disk for weights", _hub(), WEIGHTS_GIB),
    )


def _engine(engine: Probeable, presets: Presets, given: str | None, cards: tuple[Gpu, ...]) -> Row:
    python = find_python(engine, given or presets.engines.get(engine, {}).get("engine_python"))
    try:
        seen = look(engine, python)
    except SettingsError as error:
        return Row(name=engine, status="missing", detail=str(error), advice="check --engine-python")
    if not seen.found:
        return Row(name=engine, status="missing", detail=f"not in {python}", advice=INSTALL[engine])
    build = f"torch {seen.torch}" if seen.torch else "no torch"
    detail = f"{seen.version or 'unknown version'}, {build}, in {python}"
    if cards and not seen.accelerated:
        advice = "this torch cannot use the GPU: install the CUDA build"
        return Row(name=engine, status="warning", detail=detail, advice=advice)
    return Row(name=engine, status="ok", detail=detail)


def _gpus(cards: tuple[Gpu, ...]) -> list[Row]:
    if not cards:
        advice = "the engines' CPU builds, the simulated server and --url work without one"
        return [Row(name="GPU", status="missing", detail="none seen by NVML", advice=advice)]
    found = []
    for index, card in enumerate(cards):
        used, total = card.used / GIB, card.total / GIB
        busy = used > BUSY_GIB
        found.append(
            Row(
                name=f"GPU {index}",
                status="warning" if busy else "ok",
                detail=f"{card.name}, {used:.1f} of {total:.1f} GiB used, driver {card.driver}",
                advice="another program holds memory: see nvidia-smi" if busy else "",
            )
        )
    return found


def _ports(presets: Presets) -> list[Row]:
    wanted = {PORT, *(int(each["port"]) for each in presets.engines.values() if "port" in each)}
    found = []
    for port in sorted(wanted):
        free = ports.is_free(HOST, port)
        found.append(
            Row(
                name=f"port {port}",
                status="ok" if free else "warning",
                detail="free" if free else f"in use by {ports.holder(HOST, port)}",
                advice="" if free else "stop that, or choose another port with --port",
            )
        )
    return found


def _memory() -> Row:
    memory = psutil.virtual_memory()
    detail = f"{memory.available / GIB:.0f} of {memory.total / GIB:.0f} GiB available"
    if memory.available > WEIGHTS_GIB * GIB:
        return Row(name="memory", status="ok", detail=detail)
    advice = "loading an 8B model may need more"
    return Row(name="memory", status="warning", detail=detail, advice=advice)


def _disk(name: str, path: Path, needed_gib: float) -> Row:
    existing = next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())
    free = shutil.disk_usage(existing).free / GIB
    detail = f"{free:.0f} GiB free at {path}"
    if free > needed_gib:
        return Row(name=name, status="ok", detail=detail)
    return Row(name=name, status="warning", detail=detail, advice="free some space there")


def _hub() -> Path:
    """Where Hugging Face's libraries keep downloads."""
    home = os.environ.get("HF_HOME", "~/.cache/huggingface")
    return Path(os.environ.get("HF_HUB_CACHE", f"{home}/hub")).expanduser()
