"""An experiment's order: which arm runs which repeats next, and one header for several blocks."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from bench_client.records import Client, Plan, RunHeader, Server

Counters = Mapping[str, float]


class Block(Struct, frozen=True):
    """One launch of one arm: the repeats that it measures."""

    arm: int
    repeats: tuple[int, ...]


def blocks(arms: int, repeats: int) -> list[Block]:
    """ABBA: each repeat goes through the arms in the order opposite to the one before.

    Whatever drifts (heat, clocks, other load) then weighs on all arms alike. Where an arm follows
    itself, one launch serves both repeats.
    """
    order = [
        (arm, repeat)
        for repeat in range(repeats)
        for arm in (range(arms) if repeat % 2 == 0 else reversed(range(arms)))
    ]
    found: list[Block] = []
    for arm, repeat in order:
        if found and found[-1].arm == arm:
            found[-1] = Block(arm, (*found[-1].repeats, repeat))
        else:
            found.append(Block(arm, (repeat,)))
    return found


def plan_of(plan: Plan, repeats: Sequence[int]) -> Plan:
    """The part of a plan that one block measures."""
    kept = tuple(request for request in plan.requests if request.repeat in repeats)
    return msgspec.structs.replace(plan, requests=kept)


def joined(earlier: RunHeader, later: RunHeader) -> RunHeader:
    """One header for an arm's blocks so far: what was counted and measured adds up.

    `duration_ns` is that of the measured windows; the time between them is no part of it.
    """
    return msgspec.structs.replace(
        later,
        began_unix_ns=earlier.began_unix_ns,
        duration_ns=(earlier.duration_ns or 0) + (later.duration_ns or 0),
        server=_server(earlier.server, later.server),
        client=_client(earlier.client, later.client),
        note=earlier.note or later.note,
    )


def _server(earlier: Server, later: Server) -> Server:
    return msgspec.structs.replace(
        later,
        log=earlier.log,
        log_windows=(*earlier.log_windows, *later.log_windows),
        counters_before=earlier.counters_before,
        counters_after=_grown(earlier.counters_after, later),
        unmet=tuple(dict.fromkeys((*earlier.unmet, *later.unmet))),
    )


def _grown(counted: Counters | None, later: Server) -> dict[str, float] | None:
    """Counters as if one server had gone on counting: a new launch begins at zero."""
    before, after = later.counters_before, later.counters_after
    if counted is None or before is None or after is None:
        return None
    names = counted.keys() | after.keys()
    return {
        name: counted.get(name, 0.0) + after.get(name, 0.0) - before.get(name, 0.0)
        for name in names
    }


def _client(earlier: Client, later: Client) -> Client:
    clocks = [each.clock for each in (earlier, later) if each.clock]
    worst = max(clocks, key=lambda clock: clock.step_ns, default=None)
    return msgspec.structs.replace(
        later,
        cpu_s=(earlier.cpu_s or 0.0) + (later.cpu_s or 0.0),
        connect_ms=(*earlier.connect_ms, *later.connect_ms),
        loop_lag_ms_max=max(earlier.loop_lag_ms_max or 0.0, later.loop_lag_ms_max or 0.0),
        clock=worst,
    )
