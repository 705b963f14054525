"""Keys come from the environment and leave no trace in what is written."""

import os
from collections.abc import Sequence

import click

from server_launchers.shell import SECRET_FLAG

_HIDDEN = "***"


def authorization(variable: str | None) -> dict[str, str]:
    """The header for the key in the named variable; wrong usage where it is empty."""
    if variable is None:
        return {}
    key = os.environ.get(variable, "").strip()
    if not key:
        raise click.UsageError(f"--api-key-env {variable}: that variable is not set")
    return {"Authorization": f"Bearer {key}"}


def without_secrets(argv: Sequence[str]) -> tuple[str, ...]:
    """A command line with the values hidden that hold a key: headers', and secret flags'.

    `--launch-arg` passes its value on to another command line, so it is looked through.
    """
    shown: list[str] = []
    flag = ""
    for argument in argv:
        wrapper, value = _unwrapped(argument)
        if flag == "--header":
            shown.append(_header(argument))
        elif SECRET_FLAG.match(flag) and value != "--launch-arg":
            shown.append(wrapper + _HIDDEN)
        else:
            shown.append(wrapper + _hidden_inline(value))
        # The value of a secret launch argument comes behind another --launch-arg.
        if value != "--launch-arg":
            flag = value
    return tuple(shown)


def _unwrapped(argument: str) -> tuple[str, str]:
    wrapper = "--launch-arg="
    if argument.startswith(wrapper):
        return wrapper, argument.removeprefix(wrapper)
    return "", argument


def _hidden_inline(argument: str) -> str:
    flag, equals, value = argument.partition("=")
    if equals and flag == "--header":
        return f"{flag}={_header(value)}"
    return f"{flag}={_HIDDEN}" if equals and SECRET_FLAG.match(flag) else argument


def _header(text: str) -> str:
    cut = min((at for at in (text.find(":"), text.find("=")) if at > 0), default=0)
    return text[: cut + 1] + _HIDDEN if cut else _HIDDEN
