"""What an arm took: its server's memory and its GPUs' energy. Empty where nothing is known."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from bench_client.measure.energy import Energy, serving_gpus
from bench_client.records import Memory
from bench_client.report.arms import Arm, Report
from bench_client.report.sentences import Line
from bench_client.report.tables import Column, Table
from bench_client.report.text import UNKNOWN, column, count, ms_decimals, number, percent, times

MEMORY = "Memory on one GPU, by each server's own account"
ENERGY = "Energy of the GPUs over the measured window"
_PARTS = {
    "weights_gib": "weights",
    "draft_weights_gib": "draft weights",
    "kv_cache_gib": "KV cache",
    "draft_kv_cache_gib": "draft KV cache",
    "cuda_graphs_gib": "CUDA graphs",
    "activations_gib": "activations",
    "free_gib": "free",
}
_SOURCES = {"counter": "energy counter", "power": "power samples"}


def side_by_side(found: Report) -> Iterator[tuple[str, Table]]:
    """(title, table) with a row for each arm."""
    for title, table in ((MEMORY, _memory(found.arms)), (ENERGY, _energy(found))):
        if table.rows:
            yield title, table


def lines(arm: Arm) -> Iterator[Line]:
    """The same of one arm, in words; also how its GPUs were held back and who else was on them."""
    memory, energy = arm.run.header.server.memory, energy_of(arm)
    if memory:
        yield "memory", ", ".join(_parts(memory))
    if energy:
        yield "energy", _energy_words(energy)
    for name in serving_gpus(arm.run):
        if said := ", ".join(_state(_gpu(arm, name))):
            yield f"GPU {name}", said


def energy_of(arm: Arm) -> Energy | None:
    """As `summary.json` has it."""
    found = _gpu(arm, "energy")
    return msgspec.convert(found, Energy) if found else None


def _gpu(arm: Arm, name: str) -> Mapping[str, Any]:
    gpus = arm.summary.telemetry.get("gpu")
    found = gpus.get(name) if isinstance(gpus, Mapping) else None
    return found or {}


def _parts(memory: Memory) -> Iterator[str]:
    for field, title in _PARTS.items():
        size, tokens = getattr(memory, field), memory.kv_cache_tokens
        said = [] if size is None else [f"{number(size, 2)} GiB"]
        if field == "weights_gib" and memory.draft_in_weights:
            said.append("target and draft")
        if field == "kv_cache_gib" and tokens is not None:
            said.append(f"{count(tokens)} tokens")
        if said:
            yield f"{title} {' for '.join(said)}"


def _energy_words(energy: Energy) -> str:
    each, per = energy.j_per_output_token, energy.output_tok_per_j
    said = [f"{_three(energy.mean_power_w)} W on average"]
    if each is not None:
        said.insert(0, f"{_three(each)} J/output token ({_three(per)} tok/J)")
    sources = " and ".join(_SOURCES.get(part, part) for part in energy.source.split(" and "))
    return f"{', '.join(said)}, by the {sources} of GPU {', '.join(energy.gpus)}"


def _three(value: float | None) -> str:
    return number(value, ms_decimals(value or 0))


def _state(gpu: Mapping[str, Any]) -> Iterator[str]:
    clock, throttled = gpu.get("sm_clock_mhz"), gpu.get("throttled")
    if clock:
        mean, low, high = (number(clock[key], 0) for key in ("mean", "min", "max"))
        yield f"SM clock {mean} MHz ({low} to {high})"
    if throttled and throttled["share"]:
        reasons = throttled["reasons"].items()
        named = ", ".join(f"{name.replace('_', ' ')} {percent(share)}" for name, share in reasons)
        yield f"throttled in {percent(throttled['share'])} of the samples ({named})"
    elif throttled:
        yield "never throttled"
    if others := gpu.get("other_processes"):
        yield f"shared with {', '.join(others)}"


def _memory(arms: Sequence[Arm]) -> Table:
    said = [arm.run.header.server.memory or Memory() for arm in arms]
    columns = []
    for field, title in _PARTS.items():
        head = Column(title.replace(" ", "\n", 1), "GiB")
        columns.append((head, [_size(memory, field) for memory in said]))
        if field == "kv_cache_gib":
            tokens = [count(memory.kv_cache_tokens) for memory in said]
            columns.append((Column("KV\ncache", "tokens"), tokens))
    return _table(arms, columns)


def _size(memory: Memory, field: str) -> str:
    if field == "draft_weights_gib" and memory.draft_in_weights:
        return "in weights"
    return number(getattr(memory, field), 2)


def _energy(found: Report) -> Table:
    known = [energy_of(arm) for arm in found.arms]
    each = [energy.j_per_output_token if energy else None for energy in known]
    ratios = [against.ratios.get("j_per_output_token") for against in found.comparisons]
    shown = [UNKNOWN if ratio is None else times(ratio.ratio) for ratio in ratios]
    per = [energy.output_tok_per_j if energy else None for energy in known]
    power = [energy.mean_power_w if energy else None for energy in known]
    states = [[_gpu(arm, name) for name in serving_gpus(arm.run)] for arm in found.arms]
    columns = [
        (Column("energy", "J/output token"), column(each, ms_decimals)),
        (Column("energy\nratio"), ["baseline", *shown] if any(r != UNKNOWN for r in shown) else []),
        (Column("output", "tok/J"), column(per, ms_decimals)),
        (Column("power", "W"), column(power, ms_decimals)),
        (Column("SM clock", "MHz"), [_clock(gpus) for gpus in states]),
        (Column("throttled", "of samples"), [_throttled(gpus) for gpus in states]),
    ]
    return _table(found.arms, columns) if any(known) else Table((), ())


def _clock(gpus: Sequence[Mapping[str, Any]]) -> str:
    """The mean of all."""
    known = [gpu["sm_clock_mhz"]["mean"] for gpu in gpus if "sm_clock_mhz" in gpu]
    return number(sum(known) / len(known), 0) if known else UNKNOWN


def _throttled(gpus: Sequence[Mapping[str, Any]]) -> str:
    """The worst of all."""
    shares = [gpu["throttled"]["share"] for gpu in gpus if "throttled" in gpu]
    return percent(max(shares)) if shares else UNKNOWN


def _table(arms: Sequence[Arm], columns: Sequence[tuple[Column, list[str]]]) -> Table:
    """Without the columns of which nothing is known; without rows if that is all."""
    told = [(head, cells) for head, cells in columns if any(cell != UNKNOWN for cell in cells)]
    if not told:
        return Table((), ())
    names = (Column("arm", right=False), [arm.name for arm in arms])
    heads, cells = zip(names, *told, strict=True)
    return Table(columns=heads, rows=tuple(zip(*cells, strict=True)))
