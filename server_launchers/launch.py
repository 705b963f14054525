"""From a preset's name to the command that starts it: presets, probe, engine."""

import contextlib
import sys
from collections.abc import Callable, Mapping

from msgspec import structs

from . import eagle, sglang, sim, transformers, vllm
from .presets import Engine, Presets, SettingsError
from .probe import Probed, find_python, look, probe
from .resolve import resolve
from .settings import LaunchCommand, LaunchSettings

COMMANDS: dict[Engine, Callable[[LaunchSettings], LaunchCommand]] = {
    "eagle": eagle.command,
    "sglang": sglang.command,
    "sim": sim.command,
    "transformers": transformers.command,
    "vllm": vllm.command,
}


def command(settings: LaunchSettings) -> LaunchCommand:
    """Settings -> command, by the engine's own file. Raises SettingsError."""
    return COMMANDS[settings.engine](settings)


def prepare(name: str, presets: Presets, overrides: Mapping[str, object]) -> LaunchCommand:
    """The command for server `name` on this machine, after asking the engine's Python.

    Takes seconds where the engine has not been asked before. Raises SettingsError, one line.
    """
    asked = resolve(name, presets, overrides)
    command(asked)  # what cannot be run at all is refused before anything slow
    if asked.engine == "sim":
        return command(structs.replace(asked, engine_python=sys.executable))
    python = find_python(asked.engine, asked.engine_python)
    return _command_for(name, presets, overrides, probe(asked.engine, python))


def prepare_elsewhere(
    name: str, presets: Presets, overrides: Mapping[str, object]
) -> LaunchCommand:
    """As `prepare`, for printing a line for another machine.

    The engine that is here counts where it can use a GPU or its Python is named; otherwise the
    newest engine on CUDA is assumed.
    """
    asked = resolve(name, presets, overrides)
    newest = command(asked)
    if asked.engine == "sim":
        return prepare(name, presets, overrides)
    python = find_python(asked.engine, asked.engine_python)
    with contextlib.suppress(SettingsError):
        if asked.engine_python or look(asked.engine, python).accelerated:
            return _command_for(name, presets, overrides, probe(asked.engine, python))
    return newest


def _command_for(
    name: str, presets: Presets, overrides: Mapping[str, object], seen: Probed
) -> LaunchCommand:
    settings = resolve(name, presets, overrides, device=seen.device)
    return command(
        structs.replace(
            settings,
            engine_python=seen.python,
            engine_version=seen.version,
            engine_help=seen.help,
        )
    )
