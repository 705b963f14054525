"""What a server shall run with, and the command that starts it. Pure."""

from typing import Any, Literal

from msgspec import Struct

from .presets import Engine, Options, Port, Positive

Device = Literal["cuda", "cpu"]

HOST = "127.0.0.1"
PORT = 8000


class LaunchSettings(Options, frozen=True, kw_only=True):
    """One server, as asked for.

    `concurrency` is the planned peak of requests at once. `engine_version`, `engine_help` and
    `device` are what the probe found; without them the newest known flags are used.
    """

    name: str
    engine: Engine
    model: str
    speculative: bool = False
    host: str = HOST
    port: Port = PORT
    concurrency: Positive | None = None
    engine_version: str | None = None
    engine_help: str | None = None
    device: Device | None = None


class LaunchCommand(Struct, frozen=True, kw_only=True):
    """How to start one server. `env` is added to the environment, not all of it.

    The server is ready when `ready_path` answers (naming `served_model_name`, where that is
    /v1/models) and, where given, `ready_line` stands in its log. `simulated` says that its
    acceptance is not the model's.
    """

    name: str
    engine: Engine
    argv: tuple[str, ...]
    env: dict[str, str]
    url: str
    model: str
    draft_model: str | None
    served_model_name: str
    engine_version: str | None = None
    speculative_asked: dict[str, Any] | None = None
    simulated: bool = False
    ready_timeout_s: float = 1800.0  # a first start downloads the weights and compiles
    ready_path: str = "/v1/models"
    ready_line: str | None = None


def asked(s: LaunchSettings) -> dict[str, Any] | None:
    """The speculation asked for, in the names that facts.py gives the server's own report."""
    if not s.speculative:
        return None
    return {
        "method": "eagle3",
        "draft_model": s.draft_model,
        "num_steps": s.spec_steps,
        "topk": s.spec_topk,
        "num_draft_tokens": s.spec_draft_tokens,
    }
