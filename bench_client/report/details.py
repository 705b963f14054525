"""What it takes to repeat a run: the commands and the machine, for Markdown and HTML."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from bench_client.records import RunHeader
from bench_client.report.sentences import Line
from bench_client.report.text import UNKNOWN, duration

METHOD = "https://github.com/bench-client/bench-client/blob/main/docs/method.md"


def commands(header: RunHeader) -> Iterator[Line]:
    """(what, shell line) of the client and, where this program launched it, of the server."""
    yield "client", shlex.join(header.argv)
    if header.server.argv:
        yield "server", shlex.join(header.server.argv)


def circumstances(header: RunHeader) -> Iterator[Line]:
    """When and where: start, versions, then the environment with its nested names dotted."""
    yield "started", header.started_at
    yield "bench-client", header.bench_client_version
    yield "python", header.client.python
    if header.server.ready_s is not None:
        yield "server ready after", duration(header.server.ready_s)
    yield from flat(header.environment)


def flat(facts: Mapping[str, Any], under: str = "") -> Iterator[Line]:
    """A nested mapping as lines: `{"gpu": {"name": "L40"}}` gives `gpu.name`, `L40`.

    A mean with its extremes, as telemetry has them, stays on one line.
    """
    for key, value in facts.items():
        name = f"{under}.{key}" if under else str(key)
        if isinstance(value, Mapping) and value.keys() == {"mean", "min", "max"}:
            yield name, ", ".join(f"{key} {_said(each)}" for key, each in value.items())
        elif isinstance(value, Mapping):
            yield from flat(value, name)
        elif isinstance(value, list | tuple) and any(isinstance(each, Mapping) for each in value):
            yield from flat({str(i): each for i, each in enumerate(value)}, name)
        else:
            yield name, _said(value)


def _said(value: object) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_said, value)) or UNKNOWN
    return str(value)
