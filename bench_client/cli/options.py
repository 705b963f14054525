"""Options that several commands share, and how their values are read."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class JsonObject(click.ParamType):  # type: ignore[type-arg]
    """A JSON object on the command line."""

    name = "json"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, Any]:
        """Text to dict; anything but an object is wrong usage."""
        import msgspec

        if isinstance(value, dict):
            return value
        try:
            return msgspec.json.decode(value, type=dict[str, Any])
        except msgspec.DecodeError as error:
            self.fail(f"not a JSON object: {error}", param, ctx)


class Header(click.ParamType):  # type: ignore[type-arg]
    """`Name: value` or `Name=value`."""

    name = "header"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Text to (name, value)."""
        if isinstance(value, tuple):
            return value
        cuts = [cut for cut in (value.find(":"), value.find("=")) if cut > 0]
        if not cuts or not value.isprintable():
            self.fail(f"{value!r} is not 'Name: value'", param, ctx)
        cut = min(cuts)
        return value[:cut].strip(), value[cut + 1 :].strip()


class Rate(click.ParamType):  # type: ignore[type-arg]
    """`N/UNIT`: s, min or h."""

    name = "rate"
    _units: ClassVar = {"s": 1.0, "min": 60.0, "h": 3600.0}

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, float]:
        """Text to (requests, period in s)."""
        if isinstance(value, tuple):
            return value
        count, _, unit = value.partition("/")
        if not count.isdecimal() or int(count) < 1 or unit not in self._units:
            self.fail(f"{value!r} is not N/s, N/min or N/h", param, ctx)
        return int(count), self._units[unit]


class Workers(click.ParamType):  # type: ignore[type-arg]
    """`N` processes, or `ray://ADDRESS` with `?workers=N`."""

    name = "workers"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int | None, str | None]:
        """Text to (number, null: one a node; address of the Ray cluster, null: this machine)."""
        if isinstance(value, tuple):
            return value
        address, query, count = None, "", value
        if value.startswith("ray://"):
            address, query, count = value.removeprefix("ray://").partition("?workers=")
            if not re.fullmatch(r"auto|.+:\d+", address):
                self.fail(f"{value!r} is not ray://HOST:PORT[?workers=N] or ray://auto", param, ctx)
        if address and not query:
            return None, address
        if not count.isdecimal() or int(count) < 1:
            self.fail(f"{value!r} is not a number from 1 or ray://HOST:PORT", param, ctx)
        return int(count), address


def options(*given: Callable[[F], F]) -> Callable[[F], F]:
    """Several option decorators as one."""

    def decorate(function: F) -> F:
        for option in reversed(given):
            function = option(function)
        return function

    return decorate


server_options = options(
    click.option("--model", help="A model preset (qwen3-8b, llama-3.1-8b), a path or a hub id."),
    click.option("--draft-model", help="The EAGLE3 head: a path or a hub id."),
    click.option("--served-model-name", help="The name that requests give the model."),
    click.option("--port", type=click.IntRange(1, 65535), help="Port of a launched server."),
    click.option("--spec-steps", type=click.IntRange(1), help="Draft steps of each verify step."),
    click.option("--spec-topk", type=click.IntRange(1), help="Branches of each draft step."),
    click.option("--spec-draft-tokens", type=click.IntRange(1), help="Draft tokens verified."),
    click.option(
        "--simulate-accept-length",
        type=click.FloatRange(1),
        help="Have the engine fake this accept length; marked in the results.",
    ),
    click.option(
        "--launch-arg",
        "launch_args",
        multiple=True,
        help="One more argument for the server, e.g. --launch-arg=--enforce-eager.",
    ),
    click.option(
        "--engine-python",
        type=click.Path(path_type=Path),
        help="The Python that has the engine installed.",
    ),
    click.option(
        "--presets",
        type=click.Path(path_type=Path),
        help="A file of your own presets.",
    ),
)

results_option = click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Folder of the results folders.",
)
