"""From a preset's name and the command line's options to a server's settings. Pure, but for a look
whether a model's name is that of a folder.
"""

import difflib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import msgspec

from . import drafts
from .presets import Presets, SettingsError, Table, one_line
from .settings import Device, LaunchSettings

SPECULATIVE = ("spec_steps", "spec_topk", "spec_draft_tokens", "simulate_accept_length")

# Flags that the launchers set by themselves: where the client looks for the server, and as what.
OWN = {
    "--port": "--port",
    "--host": "host in a preset",
    "--served-model-name": "--served-model-name",
}
QUIET = ("warn", "warning", "error", "critical", "fatal")


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
    wanted = str(given.get("model", server.get("model", presets.default_model)))
    preset = _model_preset(wanted, presets)
    engine = server["engine"]
    layers = [
        presets.engines.get(engine, {}),
        presets.cpu.get(engine, {}) if device == "cpu" else {},
        presets.models.get(preset, {"model": wanted}),
        presets.model_engines.get((preset, engine), {}),
        {key: value for key, value in server.items() if key != "model"},
        {key: value for key, value in given.items() if key != "model"},
        {"name": name, "device": device},
    ]
    merged = _merge(layers)
    _drop_unused(merged)
    settings = _convert(merged)
    _check_head(settings)
    _check_arguments(settings)
    drafts.check_simulated(settings)
    settings = drafts.chain(settings, explicit="spec_draft_tokens" in given)
    drafts.check_tree(settings, sized=_highest(layers, "spec_draft_tokens", above="spec_topk"))
    return settings


def _server(name: str, presets: Presets) -> Table:
    if name in presets.servers:
        return presets.servers[name]
    near = difflib.get_close_matches(name, presets.servers, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(presets.servers)}"
    raise SettingsError(f"no server preset {name}: {hint}")


def _model_preset(wanted: str, presets: Presets) -> str:
    """The name of the preset that is meant by its name, or by the model that it is for.

    SettingsError for one that is meant but for upper and lower case.
    """
    if wanted in presets.models:
        return wanted
    meant = [name for name in presets.models if name.lower() == wanted.lower()]
    if meant and not Path(wanted).is_dir():
        raise SettingsError(f"no model preset {wanted}: did you mean {meant[0]}?")
    same = (name for name, table in presets.models.items() if table["model"] == wanted)
    return next(same, wanted)


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


def _highest(layers: list[Table], key: str, *, above: str) -> bool:
    """Whether `key` was said where `above` was last said, or later."""

    def last(each: str) -> int:
        return max((at for at, layer in enumerate(layers) if each in layer), default=-1)

    return last(key) >= last(above)


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
        raise SettingsError(f"server {merged['name']}: {one_line(error)}") from None


def _check_head(s: LaunchSettings) -> None:
    if s.draft_model is None and (s.speculative or s.engine == "eagle"):
        # EAGLE's plain baseline loads the head too.
        raise SettingsError(
            f"server {s.name}: {s.model} has no known draft model: give one with --draft-model"
        )


def _check_arguments(s: LaunchSettings) -> None:
    for word, following in pairwise((*s.extra_args, "")):
        flag, equals, value = word.partition("=")
        flag = flag.replace("_", "-")  # as vLLM does
        if flag in OWN:
            raise SettingsError(
                f"server {s.name}: {flag} is no argument for --launch-arg or extra_args, where the"
                f" client would not know of it: use {OWN[flag]}"
            )
        if flag == "--log-level" and (value if equals else following).lower() in QUIET:
            raise SettingsError(
                f"server {s.name}: {word} would silence what the server logs when it is ready and"
                " of what it runs: use --log-level=info, or leave it out"
            )
