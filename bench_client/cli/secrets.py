"""Keys come from the environment and leave no trace in what is written."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from bench_client.run.options import Arm
from bench_client.run.secrets import HIDDEN, redacted_json
from server_launchers.shell import SECRET_FLAG, SECRET_NAME, redacted


def authorization(variable: str | None) -> dict[str, str]:
    """The header for the key in the named variable; wrong usage where it cannot be one."""
    if variable is None:
        return {}
    key = os.environ.get(variable, "").strip()
    if not key:
        raise click.UsageError(f"--api-key-env {variable}: that variable is not set")
    if not (key.isascii() and key.isprintable()):
        raise click.UsageError(
            f"--api-key-env {variable}: the key in it has a line break or a character that no "
            "header can carry; a key is one word of printable ASCII"
        )
    return {"Authorization": f"Bearer {key}"}


def without_secrets(argv: Sequence[str]) -> tuple[str, ...]:
    """A command line with the values hidden that hold a key: headers', secret flags', and those
    of JSON whose names say so.

    `--launch-arg` passes its value on to another command line, so it is looked through.
    """
    shown: list[str] = []
    flag = ""
    for argument in argv:
        wrapper, value = _unwrapped(argument)
        if flag == "--header":
            shown.append(_header(argument))
        elif SECRET_FLAG.match(flag) and value != "--launch-arg":
            shown.append(wrapper + HIDDEN)
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
    if equals and SECRET_FLAG.match(flag):
        return f"{flag}={HIDDEN}"
    if equals and flag.startswith("--"):
        return f"{flag}={_json(value)}"
    return _json(argument)


def _json(text: str) -> str:
    """Text as it is, unless it is JSON that holds a secret."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        said = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    shown: Any = redacted_json(said)
    return text if shown == said else msgspec.json.encode(shown).decode()


def launch_secrets(arms: Sequence[Arm]) -> Iterator[str]:
    """What servers are launched with that a message may not quote."""
    for command in (arm.command for arm in arms if arm.command):
        for word, shown in zip(command.argv, redacted(command.argv), strict=True):
            if word != shown:
                yield word.partition("=")[2] if "=" in shown else word
        yield from (text for name, text in command.env.items() if SECRET_NAME.search(name))


def _header(text: str) -> str:
    cut = min((at for at in (text.find(":"), text.find("=")) if at > 0), default=0)
    return text[: cut + 1] + HIDDEN if cut else HIDDEN
