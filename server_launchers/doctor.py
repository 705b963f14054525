"""What is here to launch with: engines, GPUs, models, ports, disk. Facts for `bench-client doctor`.

What a server needs is taken from its preset, as it would be launched.
"""

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import get_args

import psutil
from msgspec import structs

from . import hub, ports
from .doctor_engines import engine_row
from .doctor_models import gpu_rows, head_rows, model_row, token_row
from .finding import GIB, Row
from .gpu import gpus
from .presets import Presets, SettingsError
from .probe import Probeable, find_python
from .resolve import resolve
from .settings import HOST, PORT, LaunchSettings

RESULTS_GIB = 1  # a long run's records and logs
WEIGHTS_GIB = 20  # one 8B model in 16 bits and its head


def rows(
    presets: Presets,
    results: Path,
    servers: Iterable[str] = (),
    overrides: Mapping[str, object] | None = None,
    refused: str | None = None,
) -> tuple[Row, ...]:
    """Every finding, in the order to read them: all that is here, or what `servers` need.

    `overrides` are options of the command line, as for `resolve`. `refused` says why nothing can be
    written to `results`. Takes seconds; never raises.
    """
    named, given = tuple(servers), overrides or {}
    faults: list[Row] = []
    asked: list[LaunchSettings] = []
    for name in named or presets.servers:
        try:
            asked.append(resolve(name, presets, given))
        except SettingsError as error:
            faults.append(_refused(name, error))
    real = [each for each in asked if each.engine != "sim"]
    pythons = _pythons(real) if named else _every_python(presets, given)
    cards = gpus()
    models = dict.fromkeys((each.model, each.draft_model) for each in real)
    weights = bool(real or not named)  # the embedded engine has none
    names = _names(models)
    return (
        *(engine_row(engine, python, cards) for engine, python in pythons),
        *faults,
        *(gpu_rows(cards, models) if weights else ()),
        *(model_row(model, name) for model, name in names.items()),
        *head_rows(models),
        *([token_row(names)] if models else ()),
        *_ports(asked if named else real),
        _memory(),
        _results(results, refused),
        *([_disk("disk for weights", hub.cache(), WEIGHTS_GIB)] if weights else ()),
    )


def _refused(name: str, error: SettingsError) -> Row:
    advice = "see --help, or your presets"
    return Row(
        name=f"server {name}", status="unusable", detail=str(error), advice=advice, stops=True
    )


def _pythons(asked: Iterable[LaunchSettings]) -> list[tuple[Probeable, str]]:
    """Each engine with the Python that these servers would run it with."""
    found = ((each.engine, find_python(each.engine, each.engine_python)) for each in asked)
    return [(engine, python) for engine, python in dict.fromkeys(found) if engine != "sim"]


def _every_python(presets: Presets, given: Mapping[str, object]) -> list[tuple[Probeable, str]]:
    found: list[tuple[Probeable, str]] = []
    for engine in get_args(Probeable):
        said = given.get("engine_python") or presets.engines.get(engine, {}).get("engine_python")
        found.append((engine, find_python(engine, str(said) if said else None)))
    return found


def _names(models: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Each model once, and what it is."""
    found: dict[str, str] = {}
    for model, head in models:
        found.setdefault(model, "model")
        if head:
            found.setdefault(head, "draft model")
    return found


def _ports(asked: Iterable[LaunchSettings]) -> list[Row]:
    wanted = {(each.host, each.port) for each in asked} or {(HOST, PORT)}
    return [_port(host, port) for host, port in sorted(wanted)]


def _port(host: str, port: int) -> Row:
    row = Row(name=f"port {port}", status="ok", detail="free")
    try:
        free = ports.is_free(host, port)
    except (OSError, OverflowError) as error:
        advice = "say another host in the preset"
        detail = f"cannot listen on {host}: {error}"
        return structs.replace(row, status="unusable", detail=detail, advice=advice, stops=True)
    if free:
        return row
    return structs.replace(
        row,
        status="warning",
        detail=f"in use by {ports.holder(host, port)}",
        advice="stop that, or choose another port with --port",
        stops=True,
    )


def _memory() -> Row:
    memory = psutil.virtual_memory()
    detail = f"{memory.available / GIB:.0f} of {memory.total / GIB:.0f} GiB available"
    if memory.available > WEIGHTS_GIB * GIB:
        return Row(name="memory", status="ok", detail=detail)
    advice = "loading an 8B model may need more"
    return Row(name="memory", status="warning", detail=detail, advice=advice)


def _results(path: Path, refused: str | None) -> Row:
    if refused is None:
        return _disk("disk for results", path, RESULTS_GIB)
    detail, _, advice = refused.partition("; ")
    return Row(name="disk for results", status="unusable", detail=detail, advice=advice, stops=True)


def _disk(name: str, path: Path, needed_gib: float) -> Row:
    existing = next(
        each for each in (path.absolute(), *path.absolute().parents) if os.access(each, os.F_OK)
    )
    free = shutil.disk_usage(existing).free / GIB
    detail = f"{free:.0f} GiB free at {path}"
    if free > needed_gib:
        return Row(name=name, status="ok", detail=detail)
    return Row(name=name, status="warning", detail=detail, advice="free some space there")
