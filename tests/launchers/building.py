"""From a preset's name to its settings and its command, as the tests ask for them."""

from typing import Any

from msgspec import structs

from server_launchers.launch import command
from server_launchers.presets import load
from server_launchers.resolve import resolve
from server_launchers.settings import Device, LaunchCommand, LaunchSettings


def settings(name: str, device: Device | None = None, **overrides: Any) -> LaunchSettings:
    return resolve(name, load(), overrides, device)


def built(
    name: str, version: str | None = None, text: str | None = None, **overrides: Any
) -> LaunchCommand:
    found = structs.replace(settings(name, **overrides), engine_version=version, engine_help=text)
    return command(found)


def value(built: LaunchCommand, flag: str) -> str | None:
    """The value of `flag`; None without it. A flag given twice fails."""
    argv = list(built.argv)
    assert argv.count(flag) <= 1
    return argv[argv.index(flag) + 1] if flag in argv else None
