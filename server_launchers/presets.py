"""Reads presets.toml and the user's own presets; says clearly what is wrong with one."""

import difflib
import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec
from msgspec import Meta, Struct

from .home import at_home

Table = dict[str, Any]
Key = TypeVar("Key", str, tuple[str, str])
Engine = Literal["sim", "vllm", "sglang", "transformers", "eagle"]
Positive = Annotated[int, Meta(ge=1)]
Port = Annotated[int, Meta(ge=1, le=65535)]

SHIPPED = Path(__file__).with_name("presets.toml")
USERS = Path("~/.config/bench-client/presets.toml")


class Options(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What any preset may say of a server. None leaves the choice to the engine.

    `spec_steps` is the longest run of drafts one verify step can accept, `spec_draft_tokens` the
    tokens one step verifies (its root included), `spec_topk` the branches (1: a chain).
    """

    model: str | None = None
    draft_model: str | None = None
    served_model_name: str | None = None
    host: str | None = None
    port: Port | None = None
    dtype: str | None = None
    context_length: Positive | None = None
    memory_fraction: Annotated[float, Meta(gt=0, lt=1)] | None = None
    spec_steps: Positive | None = None
    spec_topk: Positive | None = None
    spec_draft_tokens: Annotated[int, Meta(ge=2)] | None = None
    simulate_accept_length: float | None = None
    seed: Annotated[int, Meta(ge=0)] | None = None
    extra_args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    engine_python: str | None = None


class ServerOptions(Options, frozen=True, kw_only=True):
    """What [servers.NAME] may say."""

    engine: Engine
    speculative: bool = False


ENGINES: tuple[Engine, ...] = get_args(Engine)
KINDS = ("servers", "models", "engines", "cpu")
ELSEWHERE = {"concurrency": "it is the load's, given by --concurrency"}


class SettingsError(ValueError):
    """What was asked for cannot be launched: one line that says what to do."""


class EngineError(SettingsError):
    """The engine that was asked for is not here, or in a version that cannot be launched."""


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
    theirs = path or at_home(USERS)
    if path is None and not os.path.exists(theirs):  # noqa: PTH110 (a folder may be closed to us)
        return presets
    try:
        text = theirs.read_text("utf-8")
    except OSError as error:
        raise SettingsError(f"cannot read the presets {theirs}: {error.strerror}") from None
    except UnicodeDecodeError as error:
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
    for kind in ("engines", "cpu"):
        _known(tables[kind], ENGINES, f"{source}: [{kind}]")
    models = {name: _without(table, ENGINES) for name, table in tables["models"].items()}
    model_engines: dict[tuple[str, str], Table] = {
        (name, engine): _table(table[engine], f"{source}: [models.{name}.{engine}]")
        for name, table in tables["models"].items()
        for engine in ENGINES
        if engine in table
    }
    for kind in ("servers", "engines", "cpu"):
        for name, table in tables[kind].items():
            _check(table, f"{source}: [{kind}.{name}]", server=kind == "servers")
    for name, table in models.items():
        _check(table, f"{source}: [models.{name}]", also=ENGINES)
    for (name, engine), table in model_engines.items():
        _check(table, f"{source}: [models.{name}.{engine}]")
    default = raw.get("default_model", default_model)
    if not isinstance(default, str):
        raise SettingsError(f"{source}: default_model must be a name in quotes, not {default!r}")
    return Presets(
        default_model=default,
        servers=tables["servers"],
        models=models,
        model_engines=model_engines,
        engines=tables["engines"],
        cpu=tables["cpu"],
    )


def one_line(error: msgspec.ValidationError) -> str:
    """`KEY: what is wrong with it`."""
    problem, _, where = str(error).partition(" - at `$.")
    return f"{where.rstrip('`') or 'settings'}: {problem.replace(' | null', '')}"


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
        if "engine" not in table:  # a table of theirs may add to one of ours that has it
            raise SettingsError(f"[servers.{name}] needs an engine: one of {', '.join(ENGINES)}")
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


def _check(table: Table, where: str, *, server: bool = False, also: tuple[str, ...] = ()) -> None:
    """Types and ranges of one table, while its file and its name are known."""
    kind = ServerOptions if server else Options
    _known(table, (*kind.__struct_fields__, *also), where)
    try:
        msgspec.convert({"engine": ENGINES[0], **table} if server else table, kind)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{where} {one_line(error)}") from None


def _known(table: Table, keys: tuple[str, ...], where: str) -> None:
    for key in table:
        if key in keys:
            continue
        near = difflib.get_close_matches(key, keys, n=1)
        hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(keys)}"
        raise SettingsError(f"{where} has no key {key}: {ELSEWHERE.get(key, hint)}")
