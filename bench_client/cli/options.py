"""Options that several commands share, and how their values are read."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


# More of any of these is a slip of the finger, which would end in exhausted memory.
MOST_WORKERS = 1024
MOST_IN_FLIGHT = 100_000
MOST_REPEATS = 10_000
MOST_TOKENS = 10_000_000
MOST_SEED = 2**63 - 1


class Number(click.FloatRange):
    """A number of a range that has both ends: `nan` is in none."""

    def __init__(self, low: float, high: float, *, above: bool = False) -> None:
        """`above`: the low end is not in the range."""
        super().__init__(low, high, min_open=above)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Text to float."""
        found = float(super().convert(value, param, ctx))
        if math.isnan(found):
            self.fail(f"{value} is not a number", param, ctx)
        return found


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
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            self.fail(f"not a JSON object: {error}", param, ctx)


class Header(click.ParamType):  # type: ignore[type-arg]
    """`Name: value` or `Name=value`."""

    name = "header"
    _form: ClassVar = re.compile(r"\s*([\w!#$%&'*+.^`|~-]+)\s*[:=]([ -~]*)", re.ASCII)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Text to (name, value)."""
        from bench_client.wire.transport import OWN_HEADERS

        if isinstance(value, tuple):
            return value
        found = self._form.fullmatch(value)
        if found is None:  # not repeated: it may hold a key
            self.fail("not of the form 'Name: value', in printable ASCII", param, ctx)
        if found[1].lower() in OWN_HEADERS:
            self.fail(f"{found[1]} cannot be set: every request has its own", param, ctx)
        return found[1], found[2].strip()


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
        if not re.fullmatch(r"0*[1-9]\d{0,8}", count, re.ASCII) or unit not in self._units:
            self.fail(f"{value!r} is not N/s, N/min or N/h", param, ctx)
        return int(count), self._units[unit]

    @classmethod
    def text(cls, rate: tuple[int, float] | None) -> str | None:
        """As it was given: `2/s`."""
        units = {period_s: unit for unit, period_s in cls._units.items()}
        return f"{rate[0]}/{units[rate[1]]}" if rate else None


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
        if not re.fullmatch(r"\d{1,9}", count, re.ASCII) or not 1 <= int(count) <= MOST_WORKERS:
            said = f"{value!r} is not a number from 1 to {MOST_WORKERS} or ray://HOST:PORT"
            self.fail(said, param, ctx)
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
    click.option(
        "--port",
        type=click.IntRange(1, 65535),
        help="Port of a launched server [default: the presets'].",
    ),
    click.option(
        "--spec-steps",
        type=click.IntRange(1, 1000),
        help="Draft steps of each verify step [default: the presets'].",
    ),
    click.option(
        "--spec-topk",
        type=click.IntRange(1, 1000),
        help="Branches of each draft step; 1 is a chain [default: the presets'].",
    ),
    click.option(
        "--spec-draft-tokens",
        type=click.IntRange(1, 10_000),
        help="Tokens that a step verifies, its root included [default: the presets'].",
    ),
    click.option(
        "--simulate-accept-length",
        type=Number(1, 1000),
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
        help="The Python that has the engine [default: .engines/ENGINE's, else the client's].",
    ),
    click.option(
        "--presets",
        type=click.Path(path_type=Path),
        help="A file of your own presets [default: ~/.config/bench-client/presets.toml].",
    ),
)

# What a server that runs already would not heed.
LAUNCH_ONLY = (
    *("draft_model", "port", "spec_steps", "spec_topk", "spec_draft_tokens"),
    *("simulate_accept_length", "launch_args", "engine_python", "presets"),
)

transport_option = click.option(
    "--transport",
    type=click.Choice(["wire", "httpx", "openai"]),
    default="wire",
    show_default=True,
    help="wire is the instrument; the others show what an application sees.",
)

results_option = click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Folder of the results folders.",
)
