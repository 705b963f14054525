"""From the command line's options to the arms that they launch."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from bench_client.plan.scenario import load_scenario
from bench_client.run.options import Arm
from server_launchers.given import check_given, unheeded
from server_launchers.launch import prepare, prepare_elsewhere
from server_launchers.presets import Presets, load
from server_launchers.settings import LaunchCommand

# Room and CUDA graphs for more would take the memory that the requests need.
MOST_PLANNED = 256

_OVERRIDES = (
    "model",
    "draft_model",
    "served_model_name",
    "port",
    "spec_steps",
    "spec_topk",
    "spec_draft_tokens",
    "simulate_accept_length",
)


def launch_arms(given: Mapping[str, Any]) -> tuple[Arm, ...]:
    """An arm for each `--server`. All are checked before the first is launched.

    Raises:
        SettingsError: an unknown name, settings that exclude each other, an option that none heeds.
        EngineError: a missing engine.
    """
    presets = load(given["presets"])
    _heed(given["servers"], presets, given)
    return tuple(_arm(name, presets, given) for name in given["servers"])


def _arm(name: str, presets: Presets, given: Mapping[str, Any]) -> Arm:
    command = prepare(name, presets, overrides(given))
    return Arm(
        name=name,
        command=command,
        served_model_name=command.served_model_name,
        model=command.model,
        draft_model=command.draft_model,
        simulated=command.simulated,
    )


def printable_command(name: str, given: Mapping[str, Any]) -> LaunchCommand:
    """The command for a machine that may not be this one."""
    presets = load(given["presets"])
    _heed((name,), presets, given)
    return prepare_elsewhere(name, presets, overrides(given))


def _heed(names: Sequence[str], presets: Presets, given: Mapping[str, Any]) -> None:
    asked = overrides(given)
    check_given(names, presets, asked)
    if told := unheeded(names, presets, asked):
        click.echo(f"bench-client: {told}", err=True)


def overrides(given: Mapping[str, Any]) -> dict[str, object]:
    """The options that settings take; null where not given."""
    found = {name: given[name] for name in _OVERRIDES}
    python = given["engine_python"]
    found["engine_python"] = str(python) if python else None
    found["extra_args"] = tuple(given["launch_args"]) or None
    found["concurrency"] = planned_concurrency(given)
    return found


def planned_concurrency(given: Mapping[str, Any]) -> int:
    """The most requests that can be in flight.

    An open loop without a cap could have all of a repeat's in flight. They are planned for, up to
    MOST_PLANNED, and alike in every arm: left alone, SGLang caps its EAGLE3 arm only.
    """
    if given.get("request_rate") is None:
        return given.get("concurrency") or 1
    if given["max_concurrency"] is not None:
        return int(given["max_concurrency"])
    return min(len(load_scenario(given["scenario"]).prompts), MOST_PLANNED)
