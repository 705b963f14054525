"""What may be compared with what. Rules: docs/method.md, "Pairing"."""

from collections.abc import Iterator

from bench_client.measure.timeline import ok_records
from bench_client.records import Load, Run


def refusal(baseline: Run, other: Run) -> str | None:
    """Why a ratio of speeds would mean nothing; null if it means something."""
    mine, theirs = (_model(run) for run in (baseline, other))
    if mine and theirs and mine != theirs:
        return f"the models differ: {mine} and {theirs}; compare runs of one model"
    if any(run.header.imported for run in (baseline, other)):
        return None  # another tool's sampling is not known
    heat, other_heat = (run.header.plan.sampling.temperature for run in (baseline, other))
    if bool(heat) != bool(other_heat):
        return (
            f"one run is greedy and the other is not (temperature {heat:g} and {other_heat:g}), "
            "which changes what is accepted; run both at one temperature"
        )
    return None


def _model(run: Run) -> str | None:
    """The model's own name: a path or a hub owner before it says nothing about the weights."""
    model = run.header.server.model
    return model.rstrip("/").rpartition("/")[2].casefold() if model else None


def unpaired_reason(baseline: Run, other: Run) -> str | None:
    """Why prompts cannot be paired; null if each has its like in the other run."""
    runs = (baseline, other)
    if any(run.header.imported for run in runs):
        return "runs of other tools do not say which prompt is which"
    if any(run.header.plan.chained for run in runs):
        return "the prompts are chained on earlier answers, so each arm had its own"
    mine, theirs = ({each.prompt_sha256 for each in run.records} for run in runs)
    common = mine & theirs
    if mine != theirs:
        return f"the prompts differ: {len(common)} of {len(mine | theirs)} are in both runs"
    return _input_lengths_differ(baseline, other)


def _input_lengths_differ(baseline: Run, other: Run) -> str | None:
    mine, theirs = _input_tokens(baseline), _input_tokens(other)
    apart = [(mine[key], theirs[key]) for key in mine if theirs.get(key, mine[key]) != mine[key]]
    if not apart:
        return None
    return (
        f"input lengths differ in {len(apart)} of {len(mine)} prompts "
        f"({apart[0][0]} and {apart[0][1]} tokens): chat template or tokenizer differ"
    )


def _input_tokens(run: Run) -> dict[str, int]:
    ok = ok_records(run)
    return {each.prompt_sha256: each.input_tokens for each in ok if each.input_tokens is not None}


def differences(baseline: Run, other: Run) -> Iterator[str]:
    """What else differs, or went wrong, that a reader of the ratios must know."""
    yield from _failures(baseline, other)
    imported = [run for run in (baseline, other) if run.header.imported]
    if imported:
        yield from _definitions(baseline, other)
        if not all(run.header.server.model for run in (baseline, other)):
            yield "the model of at least one run is not known: check that both ran the same"
    else:
        yield from _plans(baseline, other)


def _failures(baseline: Run, other: Run) -> Iterator[str]:
    for run, role in ((baseline, "the baseline"), (other, "the other run")):
        failed = len(run.records) - len(ok_records(run))
        if failed:
            yield f"{failed} of {len(run.records)} requests of {role} failed and are left out"


def _plans(baseline: Run, other: Run) -> Iterator[str]:
    mine, theirs = baseline.header.plan, other.header.plan
    if mine.api != theirs.api:
        yield f"the APIs differ: {mine.api} and {theirs.api}; their prompts are templated unlike"
    if _load(mine.load) != _load(theirs.load):
        yield f"the loads differ: {_load(mine.load)} and {_load(theirs.load)}"
    heat, other_heat = mine.sampling.temperature, theirs.sampling.temperature
    if heat != other_heat:
        yield f"the temperatures differ ({heat:g} and {other_heat:g}), and acceptance with them"
    if mine.sampling.ignore_eos != theirs.sampling.ignore_eos:
        yield "only one run ignores the end of sequence, so answers differ in length"


def _load(load: Load) -> str:
    cap = f", at most {load.max_concurrency} in flight" if load.max_concurrency else ""
    if load.kind == "closed":
        return f"concurrency {load.concurrency}"
    return f"{load.request_rate} requests/s{cap}"


def _definitions(baseline: Run, other: Run) -> Iterator[str]:
    told = [
        run.header.imported.definitions if run.header.imported else {} for run in (baseline, other)
    ]
    for name in sorted(told[0].keys() | told[1].keys()):
        mine, theirs = (definitions.get(name) for definitions in told)
        if mine != theirs:
            ours = "as in docs/method.md"
            yield f"{name} is not the same figure: baseline {mine or ours}; other {theirs or ours}"
