"""The benchmark's rows as Markdown, and what its targets make of them."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass

from bench_client.run.environment import describe_machine
from benchmarks import truth
from benchmarks.peers import TOKENS, Figures

CPU_LIMIT_US = 10.0
CPU_LIMIT_STREAMS = 1000

_COLUMNS = (
    "client",
    "TTFT mean",
    "TTFT p99",
    "gap p99",
    "CPU us/event",
    "wall s",
    "merged events",
    "event error us: p50, p99, max",
)


@dataclass(frozen=True)
class Events:
    """This client event by event: its stamp minus the instant of sending, us.

    Merged events came in one read with a later one and carry its stamp.
    """

    error_p50: float
    error_p99: float
    error_max: float
    merged: int


@dataclass(frozen=True)
class Row:
    """One client's run beside the server's own figures. CPU: us an event, the whole process."""

    own: Figures
    server: Figures
    cpu_us: float
    wall_s: float
    events: Events | None


def heading() -> str:
    """Where and how."""
    machine = describe_machine()
    return (
        f"{machine['cpu']}, {machine['os']}, Python {platform.python_version()}, load "
        f"{os.getloadavg()[0]:.1f} before the start. TTFT {truth.TTFT_MS} ms, an event every "
        f"{truth.ITL_MS} ms, {TOKENS} events an answer. Milliseconds, in brackets the server's own."
    )


def head(streams: int) -> str:
    """The first lines of a table."""
    requests = 3 * streams
    title = f"\n**{streams} streams**, {requests} requests, {requests * TOKENS:,} events\n"
    return "\n".join([title, line(_COLUMNS), line(["---"] * len(_COLUMNS))])


def row(name: str, found: Row) -> str:
    """One client's line."""
    pairs = zip(found.own, found.server, strict=True)
    cells = ["mean only" if own is None else f"{own:.2f} ({true:.2f})" for own, true in pairs]
    cells += [f"{found.cpu_us:.1f}", f"{found.wall_s:.1f}"]
    if events := found.events:
        errors = (events.error_p50, events.error_p99, events.error_max)
        cells += [f"{events.merged:,}", ", ".join(f"{us:.0f}" for us in errors)]
    return line([name, *cells])


def line(cells: Sequence[str]) -> str:
    """Cells between bars; a short row is filled up."""
    filled = [*cells, *[""] * (len(_COLUMNS) - len(cells))]
    return f"| {' | '.join(filled)} |"


def targets(streams: int, ours: Row, rust: Row | None) -> str:
    """Each target at this load: how far off we are, whether that is within it, and the peer's."""
    said = [""]
    for name, limit in _limits_ms(streams).items():
        off = _off(ours, name)
        text = f"{_verdict(off < limit)}: {name} off by {off:.3f} ms, limit {limit:g}"
        if rust:
            theirs = _off(rust, name)
            text += f"; the Rust client by {theirs:.3f}, {_verdict(off < theirs)}"
        said.append(f"- {text}")
    if streams == CPU_LIMIT_STREAMS:
        text = f"{ours.cpu_us:.1f} us of CPU an event, limit {CPU_LIMIT_US:g}"
        said.append(f"- {_verdict(ours.cpu_us < CPU_LIMIT_US)}: {text}")
    if rust:
        text = f"{ours.cpu_us:.1f} us of CPU an event, the Rust client {rust.cpu_us:.1f}"
        said.append(f"- {_verdict(ours.cpu_us < rust.cpu_us)}: {text}")
    if ours.events and ours.events.merged:
        said.append(f"- {ours.events.merged:,} events came merged: the client fell behind")
    return "\n".join(said)


def _limits_ms(streams: int) -> dict[str, float]:
    if streams <= 2:
        return {"ttft_p99": 0.1}
    if streams <= 500:
        return {"gap_p99": 0.1, "ttft_mean": 0.2}
    return {"gap_p99": 0.5, "ttft_mean": 1.0}


def _off(found: Row, name: str) -> float:
    own: float = getattr(found.own, name)
    true: float = getattr(found.server, name)
    return abs(own - true)


def _verdict(met: bool) -> str:
    return "met" if met else "MISSED"
