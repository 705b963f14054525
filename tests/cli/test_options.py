"""Values that no option takes: refused when the command line is read."""

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest

from bench_client.cli import cli
from bench_client.cli.options import Number
from server_launchers.presets import SHIPPED, parse


def read(command: str, *arguments: object) -> dict[str, Any]:
    found = cli.get_command(click.Context(cli), command)
    assert found
    with found.make_context(command, [str(each) for each in arguments]) as context:
        return context.params


def refused(command: str, *arguments: object) -> str:
    with pytest.raises(click.UsageError) as error:
        read(command, *arguments)
    message = error.value.format_message()
    assert "\n" not in message
    return message


def numeric() -> list[tuple[str, click.Option]]:
    """Every option of every command that takes a number."""
    kinds = click.types.FloatParamType, click.types.IntParamType
    commands = {name: cli.get_command(click.Context(cli), name) for name in cli.list_commands(None)}  # type: ignore[arg-type]
    return [
        (name, option)
        for name, command in commands.items()
        for option in (command.params if command else ())
        if isinstance(option, click.Option) and isinstance(option.type, kinds)
    ]


def test_every_number_has_both_ends() -> None:
    found = numeric()
    assert len(found) > 15
    for command, option in found:
        assert isinstance(option.type, click.IntRange | Number), option.name
        assert option.type.min is not None, option.name
        assert option.type.max is not None, option.name
        name = ("sim",) if command == "launch" else ()
        for value in ("nan", "inf", "-inf", "-1", "1e300", "1" + "0" * 400):
            assert option.opts[0] in refused(command, *name, option.opts[0], value)


def test_numbers_in_the_range_are_taken() -> None:
    given = read("run", "--temperature", "0", "--request-rate", "0.5", "--stall-timeout", "1e-3")
    assert (given["temperature"], given["request_rate"]) == (0.0, 0.5)
    assert given["stall_timeout"] == 0.001
    assert "--stall-timeout" in refused("run", "--stall-timeout", "0")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--workers", "1025"),
        ("--workers", "0"),
        ("--workers", "9" * 5000),
        ("--workers", "ray://host:1?workers=99999"),
        ("--rate-limit", "0/s"),
        ("--rate-limit", "9" * 5000 + "/s"),
        ("--extra-body", '{"a":' * 5000),
        ("--extra-body", '{"a":"\udcff"}'),
        ("--extra-body", '{"a":NaN}'),
        ("--extra-body", '{"sampling_params": 3}'),
    ],
)
def test_odd_values(option: str, value: str) -> None:
    assert option in refused("run", option, value)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("temperature", "--temperature"),
        ("max_tokens", "--max-tokens"),
        ("max_completion_tokens", "--max-tokens"),
        ("max_new_tokens", "--max-tokens"),
        ("ignore_eos", "--ignore-eos"),
        ("seed", "--seed"),
        ("model", "--served-model-name"),
        ("messages", "--scenario"),
        ("prompt", "--scenario"),
        ("stream", "measured as a stream"),
    ],
)
def test_the_extra_body_leaves_to_options_what_they_set(name: str, instead: str) -> None:
    message = refused("run", "--extra-body", json.dumps({name: 0, "top_p": 1}))
    assert repr(name) in message
    assert instead in message
    inner = refused("run", "--extra-body", json.dumps({"sampling_params": {name: 0}}))
    assert instead in inner


def test_the_extra_body_takes_the_rest() -> None:
    body = {"top_p": 0.9, "sampling_params": {"top_k": 5}, "chat_template_kwargs": {"seed": 1}}
    assert read("run", "--extra-body", json.dumps(body))["extra_body"] == body


def test_every_option_says_what_it_is_and_its_default() -> None:
    for name in cli.list_commands(click.Context(cli)):
        command = cli.get_command(click.Context(cli), name)
        assert command
        for option in command.params:
            if not isinstance(option, click.Option):
                continue
            assert option.help, f"{name} {option.opts[0]}"
            if isinstance(option.default, int | float | str | Path) and not option.is_flag:
                assert option.show_default, f"{name} {option.opts[0]}"


def test_help_names_every_server_that_ships() -> None:
    command = cli.get_command(click.Context(cli), "run")
    assert command
    (option,) = (each for each in command.params if each.name == "servers")
    assert isinstance(option, click.Option)
    named = set(re.findall(r"[a-z]+(?:-\w+)?(?=,)", option.help or ""))
    assert set(parse(SHIPPED.read_text("utf-8"), "shipped").servers) <= named


def test_the_default_temperature_is_the_scenarios() -> None:
    command = cli.get_command(click.Context(cli), "run")
    assert command
    (option,) = (each for each in command.params if each.name == "temperature")
    assert isinstance(option, click.Option)
    assert "[default: the scenario's, else 0.6]" in (option.help or "")
