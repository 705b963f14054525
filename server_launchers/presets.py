"""Reads presets.toml and the user's own presets; says clearly what is wrong with one."""

import difflib
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

Table = dict[str, Any]
Key = TypeVar("Key", str, tuple[str, str])

SHIPPED = Path(__file__).with_name("presets.toml")
USERS = Path("~/.config/bench-client/presets.toml")

ENGINES = ("sim", "vllm", "sglang", "transformers", "eagle")
KEYS = (
    *("model", "draft_model", "served_model_name", "host", "port", "dtype", "context_length"),
    *("memory_fraction", "spec_steps", "spec_topk", "spec_draft_tokens", "simulate_accept_length"),
    *("concurrency", "seed", "extra_args", "env", "engine_python"),
)
SERVER_KEYS = ("engine", "speculative", *KEYS)
KINDS = ("servers", "models", "engines", "cpu")


class SettingsError(ValueError):
    """What was asked for cannot be launched: one line that says what to do."""


class Presets(Struct, frozen=True, kw_only=True):
    """Presets by kind. `model_engines` is keyed by (model preset, engine)."""

    default_model: str
    servers: dict[str, Table]
    models: dict[str, Table]
    model_engines: dict[tuple[str, str], Table]
    engines: dict[str, Table]
    cpu: dict[str, Table]


def load(path: Path | None = None) -> Presets:
    """The shipped presets under the user's: `path`, else the user's own file where there is one.

    Raises SettingsError for a file that cannot be read, an unknown key or a wrong shape.
    """
    presets = parse(SHIPPED.read_text("utf-8"), SHIPPED.name)
    theirs = path or USERS.expanduser()
    if path is None and not theirs.exists():
        return presets
    try:
        text = theirs.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read the presets {theirs}: {error}") from None
    return _over(presets, parse(text, str(theirs), default_model=presets.default_model))


def parse(text: str, source: str, default_model: str = "") -> Presets:
    """Presets from TOML. Raises SettingsError naming `source`, the table and the key."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{source}: not valid TOML: {error}") from None
    _known(raw, ("default_model", *KINDS), source)
    tables = {kind: _tables(raw, kind, source) for kind in KINDS}
    models = {name: _without(table, ENGINES) for name, table in tables["models"].items()}
    model_engines = {
        (name, engine): _table(table[engine], f"{source}: [models.{name}.{engine}]")
        for name, table in tables["models"].items()
        for engine in ENGINES
        if engine in table
    }
    for kind in ("engines", "cpu"):
        _known(tables[kind], ENGINES, f"{source}: [{kind}]")
    for kind in ("servers", "engines", "cpu"):
        keys = SERVER_KEYS if kind == "servers" else KEYS
        for name, table in tables[kind].items():
            _known(table, keys, f"{source}: [{kind}.{name}]")
    for name, table in models.items():
        _known(table, KEYS, f"{source}: [models.{name}]")
    for (name, engine), table in model_engines.items():
        _known(table, KEYS, f"{source}: [models.{name}.{engine}]")
    return Presets(
        default_model=raw.get("default_model", default_model),
        servers=tables["servers"],
        models=models,
        model_engines=model_engines,
        engines=tables["engines"],
        cpu=tables["cpu"],
    )


def _over(ours: Presets, theirs: Presets) -> Presets:
    merged = Presets(
        default_model=theirs.default_model,
        servers=_merge(ours.servers, theirs.servers),
        models=_merge(ours.models, theirs.models),
        model_engines=_merge(ours.model_engines, theirs.model_engines),
        engines=_merge(ours.engines, theirs.engines),
        cpu=_merge(ours.cpu, theirs.cpu),
    )
    for name, table in merged.servers.items():
        if table.get("engine") not in ENGINES:
            raise SettingsError(
                f"[servers.{name}] needs an engine: one of {', '.join(ENGINES)}"
                f" (found {table.get('engine')!r})"
            )
    for name, table in merged.models.items():
        if "model" not in table:
            raise SettingsError(f"[models.{name}] needs a model: a path or a repository id")
    return merged


def _merge(ours: dict[Key, Table], theirs: dict[Key, Table]) -> dict[Key, Table]:
    return {key: {**ours.get(key, {}), **theirs.get(key, {})} for key in {**ours, **theirs}}


def _tables(raw: Table, kind: str, source: str) -> dict[str, Table]:
    tables = _table(raw.get(kind, {}), f"{source}: [{kind}]")
    return {name: _table(table, f"{source}: [{kind}.{name}]") for name, table in tables.items()}


def _table(value: object, where: str) -> Table:
    if not isinstance(value, dict):
        raise SettingsError(f"{where} must be a table")
    return value


def _without(table: Table, keys: tuple[str, ...]) -> Table:
    return {key: value for key, value in table.items() if key not in keys}


def _known(table: Table, keys: tuple[str, ...], where: str) -> None:
    for key in table:
        if key in keys:
            continue
        near = difflib.get_close_matches(key, keys, n=1)
        hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(keys)}"
        raise SettingsError(f"{where} has no key {key}: {hint}")
