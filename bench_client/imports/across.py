"""What the runs of one file say about each other, added to the findings of the later-named one."""

from collections.abc import Sequence
from statistics import fmean

from msgspec.structs import replace

from bench_client.imports.as_run import Figures
from bench_client.records import Imported, Run


def with_findings(runs: Sequence[Run]) -> list[Run]:
    """The runs, each with what it says against the plain run of its engine in the same file."""
    return [_against(run, _plain(run, runs)) for run in runs]


def _imported(run: Run) -> Imported:
    imported = run.header.imported
    if imported is None:
        raise ValueError("not an imported run")
    return imported


def _speculates(run: Run) -> bool:
    imported = _imported(run)
    named = run.header.server.name != run.header.server.engine
    return named or bool(imported.figures.get("speculation.accept_length"))


def _plain(run: Run, runs: Sequence[Run]) -> Run | None:
    """The one run of the same engine and tool without speculation, if this one speculates."""
    plain = [
        other
        for other in runs
        if not _speculates(other)
        and other.header.server.engine == run.header.server.engine
        and _imported(other).tool == _imported(run).tool
    ]
    return plain[0] if _speculates(run) and len(plain) == 1 else None


def _against(run: Run, plain: Run | None) -> Run:
    if plain is None:
        return run
    mine, theirs = _imported(run), _imported(plain)
    found = (
        _step_cost(mine, theirs),
        _throughput(mine.figures, theirs.figures, theirs.label or plain.header.server.name),
        _input_lengths(run, plain, theirs.label or plain.header.server.name),
    )
    findings = (*mine.findings, *(sentence for sentence in found if sentence))
    return replace(run, header=replace(run.header, imported=replace(mine, findings=findings)))


def _step_cost(mine: Imported, theirs: Imported) -> str | None:
    """Speedup = accept length / cost, so cost is the accept length that breaks even."""
    steps, base = mine.samples.get("step_ms"), theirs.samples.get("step_ms")
    if not steps or not base or "accept_length" not in mine.samples:
        return None
    cost = fmean(steps) / fmean(base)
    return (
        f"A verify step takes {min(steps):.1f} to {max(steps):.1f} ms and a plain step "
        f"{fmean(base):.1f} ms: it costs {cost:.2f} times as much, so speculation pays above an "
        f"accept length of {cost:.2f}."
    )


def _throughput(mine: Figures, theirs: Figures, name: str) -> str | None:
    """Of the same work only: as many requests with as many tokens."""
    same = ("requests.ok", "input_tokens", "output_tokens")
    speed = "throughput.output_tok_per_s"
    ours, base = mine.get(speed), theirs.get(speed)
    if ours is None or not base or any(mine.get(key) != theirs.get(key) for key in same):
        return None
    count, tokens = mine.get("requests.ok"), mine.get("output_tokens")
    if count is None or tokens is None:
        return None
    return (
        f"For the same {count:.0f} requests and {tokens:.0f} output tokens this server gave "
        f"{ours:.2f} tok/s, {ours / base:.3f} times the {base:.2f} of “{name}”."
    )


def _input_lengths(run: Run, plain: Run, name: str) -> str | None:
    mine = [record.input_tokens for record in run.records if record.input_tokens is not None]
    theirs = [record.input_tokens for record in plain.records if record.input_tokens is not None]
    if not mine or not theirs:
        return None
    common = len(set(mine) & set(theirs))
    counts = f"{len(mine)} requests here and {len(theirs)} in “{name}”"
    if common >= min(len(mine), len(theirs)):
        return None
    return (
        f"Of {counts}, {common} have an input length in common: the prompts are not the same, so "
        "the runs cannot be paired."
    )
