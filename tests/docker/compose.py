"""Reads a compose file as Docker Compose does, as far as ours go."""

import re
import shlex
from pathlib import Path
from typing import Any

import yaml

DOCKER = Path(__file__).parents[2] / "docker"
FILES = sorted(DOCKER.glob("compose.*.yaml"))

_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


def load(name: str, **env: str) -> Any:
    """`compose.NAME.yaml` with the variables of `env`, the others at their defaults."""
    text = (DOCKER / f"compose.{name}.yaml").read_text()
    filled = _VARIABLE.sub(lambda match: env.get(match[1]) or match[2], text)
    assert "$" not in filled, "a variable without a default"
    return yaml.safe_load(filled)


def words(command: str | list[str]) -> list[str]:
    """A command as its arguments."""
    return shlex.split(command) if isinstance(command, str) else command


def dockerfile(name: str) -> str:
    """A Dockerfile with its continued lines joined."""
    return (DOCKER / f"{name}.Dockerfile").read_text().replace("\\\n", "")
