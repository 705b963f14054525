"""What a server shall run with, and the command that starts it. Pure."""

import difflib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from .presets import Presets, SettingsError, Table

Engine = Literal["sim", "vllm", "sglang", "transformers", "eagle"]
Device = Literal["cuda", "cpu"]

HOST = "127.0.0.1"
PORT = 8000

SPECULATIVE = ("spec_steps", "spec_topk", "spec_draft_tokens", "simulate_accept_length")


class LaunchSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One server, as asked for. None leaves the choice to the engine.

    `spec_steps` is the longest run of drafts one verify step can accept, `spec_draft_tokens` the
    tokens one step verifies (its root included), `spec_topk` the branches (1: a chain).
    `concurrency` is the planned peak of requests at once. `engine_version`, `engine_help` and
    `device` are what the probe found; without them the newest known flags are used.
    """

    name: str
    engine: Engine
    model: str
    speculative: bool = False
    draft_model: str | None = None
    served_model_name: str | None = None
    host: str = HOST
    port: int = PORT
    dtype: str | None = None
    context_length: int | None = None
    memory_fraction: float | None = None
    spec_steps: int | None = None
    spec_topk: int | None = None
    spec_draft_tokens: int | None = None
    simulate_accept_length: float | None = None
    concurrency: int | None = None
    seed: int | None = None
    extra_args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    engine_python: str | None = None
    engine_version: str | None = None
    engine_help: str | None = None
    device: Device | None = None


class LaunchCommand(Struct, frozen=True, kw_only=True):
    """How to start one server. `env` is added to the environment, not all of it.

    The server is ready when `ready_path` answers (naming `served_model_name`, where that is
    /v1/models) and, where given, `ready_line` stands in its log. `simulated` says that its
    acceptance is not the model's.
    """

    name: str
    engine: Engine
    argv: tuple[str, ...]
    env: dict[str, str]
    url: str
    model: str
    draft_model: str | None
    served_model_name: str
    engine_version: str | None = None
    speculative_asked: dict[str, Any] | None = None
    simulated: bool = False
    ready_timeout_s: float = 1800.0  # a first start downloads the weights and compiles
    ready_path: str = "/v1/models"
    ready_line: str | None = None


def resolve(
    name: str,
    presets: Presets,
    overrides: Mapping[str, object],
    device: Device | None = None,
) -> LaunchSettings:
    """The settings of server `name`: its presets under the overrides (None: not given).

    Raises SettingsError, one line, for an unknown name, a bad value or a missing draft model.
    """
    server = _server(name, presets)
    given = {key: value for key, value in overrides.items() if value is not None}
    wanted = given.get("model", server.get("model", presets.default_model))
    model = presets.models.get(str(wanted), {"model": wanted})
    engine = server["engine"]
    layers = [
        presets.engines.get(engine, {}),
        presets.cpu.get(engine, {}) if device == "cpu" else {},
        model,
        presets.model_engines.get((str(wanted), engine), {}),
        {key: value for key, value in server.items() if key != "model"},
        {key: value for key, value in given.items() if key != "model"},
        {"name": name, "device": device},
    ]
    merged = _merge(layers)
    _drop_unused(merged)
    settings = _convert(merged)
    _check(settings)
    return _chain(settings, explicit="spec_draft_tokens" in given)


def asked(s: LaunchSettings) -> dict[str, Any] | None:
    """The speculation asked for, in the names that facts.py gives the server's own report."""
    if not s.speculative:
        return None
    return {
        "method": "eagle3",
        "draft_model": s.draft_model,
        "num_steps": s.spec_steps,
        "topk": s.spec_topk,
        "num_draft_tokens": s.spec_draft_tokens,
    }


def check_chain(s: LaunchSettings, engine: str) -> None:
    """For an engine whose drafts are a chain. SettingsError if a tree is asked for."""
    if s.spec_topk not in (None, 1):
        raise SettingsError(
            f"server {s.name}: {engine} drafts a chain, not a tree: spec_topk must be 1, not"
            f" {s.spec_topk}"
        )
    drafts = None if s.spec_draft_tokens is None else s.spec_draft_tokens - 1
    if drafts is not None and s.spec_steps not in (None, drafts):
        raise SettingsError(
            f"server {s.name}: {engine} drafts a chain: {s.spec_steps} steps verify"
            f" {(s.spec_steps or 0) + 1} tokens, not {s.spec_draft_tokens}: leave out"
            " spec_draft_tokens"
        )


def _server(name: str, presets: Presets) -> Table:
    if name in presets.servers:
        return presets.servers[name]
    near = difflib.get_close_matches(name, presets.servers, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(presets.servers)}"
    raise SettingsError(f"no server preset {name}: {hint}")


def _merge(layers: list[Table]) -> Table:
    merged: Table = {"extra_args": [], "env": {}}
    for layer in layers:
        for key, value in layer.items():
            if key == "extra_args":
                merged[key] = [*merged[key], *value]
            elif key == "env":
                merged[key] = {**merged[key], **value}
            else:
                merged[key] = value
    return merged


def _drop_unused(merged: Table) -> None:
    """A plain arm takes no draft settings, so that the same options serve both arms."""
    if merged.get("speculative"):
        return
    for key in SPECULATIVE:
        merged.pop(key, None)
    if merged["engine"] != "eagle":
        merged.pop("draft_model", None)


def _convert(merged: Table) -> LaunchSettings:
    try:
        return msgspec.convert(merged, LaunchSettings)
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at `$.")
        field = where.rstrip("`") or "settings"
        raise SettingsError(f"server {merged['name']}: {field}: {problem}") from None


def _check(s: LaunchSettings) -> None:
    faults = {
        f"port {s.port} is not between 1 and 65535": not 1 <= s.port <= 65535,
        f"concurrency {s.concurrency} is below 1": s.concurrency is not None and s.concurrency < 1,
        f"memory_fraction {s.memory_fraction} is not between 0 and 1": s.memory_fraction is not None
        and not 0 < s.memory_fraction < 1,
        f"spec_steps {s.spec_steps} is below 1": s.spec_steps is not None and s.spec_steps < 1,
        f"{s.model} has no known draft model: give one with --draft-model": s.draft_model is None
        and (s.speculative or s.engine == "eagle"),  # whose baseline loads the head too
    }
    for fault, found in faults.items():
        if found:
            raise SettingsError(f"server {s.name}: {fault}")
    _check_simulated(s)


def _check_simulated(s: LaunchSettings) -> None:
    if s.simulate_accept_length is None:
        return
    longest = float("inf") if s.spec_steps is None else s.spec_steps + 1
    if not 1 <= s.simulate_accept_length <= longest:
        raise SettingsError(
            f"server {s.name}: an accept length of {s.simulate_accept_length:g} cannot come from "
            f"{s.spec_steps} drafting steps: choose 1 to {longest:g}"
        )


def _chain(s: LaunchSettings, *, explicit: bool) -> LaunchSettings:
    """A chain of n steps verifies n + 1 tokens, whatever a lower layer said."""
    if s.spec_topk != 1 or s.spec_steps is None:
        return s
    tokens = s.spec_steps + 1
    if explicit and s.spec_draft_tokens != tokens:
        raise SettingsError(
            f"server {s.name}: a chain (spec_topk 1) of {s.spec_steps} steps verifies {tokens} "
            f"tokens, not {s.spec_draft_tokens}: leave spec_draft_tokens out, or raise spec_topk"
        )
    return msgspec.structs.replace(s, spec_draft_tokens=tokens)
