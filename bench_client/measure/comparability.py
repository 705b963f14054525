"""What may be compared with what. Rules: docs/method.md, "Pairing"."""

from collections.abc import Iterator

from bench_client.measure.intervals import FEWEST_UNITS
from bench_client.measure.lossless import lengths_apart
from bench_client.measure.setups import base_name, setup_differences, unlike_work
from bench_client.measure.timeline import ok_records
from bench_client.records import Plan, Run


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
    return base_name(run.header.server.model)


def unpaired_reason(baseline: Run, other: Run) -> str | None:
    """Why prompts cannot be paired; null if they can, as far as both runs have them."""
    runs = (baseline, other)
    if any(run.header.imported for run in runs):
        return "runs of other tools do not say which prompt is which"
    if any(run.header.plan.chained for run in runs):
        return "the prompts are chained on earlier answers, so each arm had its own"
    shared = shared_prompts(baseline, other)
    if shared and shared[0] < FEWEST_UNITS:
        return f"the prompts differ: {shared[0]} of {shared[1]} are in both runs"
    return _input_lengths_differ(baseline, other)


def shared_prompts(baseline: Run, other: Run) -> tuple[int, int] | None:
    """How many prompts are in both runs, and in any of them; null if all are in both."""
    mine, theirs = ({each.prompt_sha256 for each in run.records} for run in (baseline, other))
    return None if mine == theirs else (len(mine & theirs), len(mine | theirs))


def _input_lengths_differ(baseline: Run, other: Run) -> str | None:
    mine, theirs = _input_tokens(baseline), _input_tokens(other)
    apart = [(mine[key], theirs[key]) for key in mine if theirs.get(key, mine[key]) != mine[key]]
    if not apart:
        return None
    return (
        f"input lengths differ in {len(apart)} of {len(mine.keys() & theirs.keys())} prompts "
        f"({apart[0][0]} and {apart[0][1]} tokens): chat template or tokenizer differ"
    )


def _input_tokens(run: Run) -> dict[str, int]:
    ok = ok_records(run)
    return {each.prompt_sha256: each.input_tokens for each in ok if each.input_tokens is not None}


def differences(baseline: Run, other: Run) -> Iterator[str]:
    """What else differs, or went wrong, that a reader of the ratios must know."""
    if baseline.path and baseline.path == other.path:
        yield "both are one and the same run: give another to compare it with"
    yield from _failures(baseline, other)
    if reason := unlike_work(baseline, other):
        yield f"{reason}, so a step costs otherwise and accept length alone explains no speedup"
    yield from setup_differences(baseline, other)
    if not all(run.header.server.model for run in (baseline, other)):
        yield "the model of at least one run is not known: check that both ran the same"
    if any(run.header.imported for run in (baseline, other)):
        yield from _definitions(baseline, other)
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
    heat, other_heat = mine.sampling.temperature, theirs.sampling.temperature
    if heat != other_heat:
        yield f"the temperatures differ ({heat:g} and {other_heat:g}), and acceptance with them"
    if heat and mine.seed != theirs.seed:
        yield f"the seeds differ ({mine.seed} and {theirs.seed}), so other tokens were drawn"
    if mine.sampling.ignore_eos != theirs.sampling.ignore_eos:
        apart = lengths_apart(baseline, other)
        effect = f", and answers differ in length by {apart:.0%} on average" if apart else ""
        yield f"only one run ignores the end of sequence{effect}"
    yield from _token_limits(mine, theirs)


def _token_limits(mine: Plan, theirs: Plan) -> Iterator[str]:
    limits, others = (
        {each.prompt_sha256: each.max_tokens for each in plan.requests} for plan in (mine, theirs)
    )
    common = [key for key in limits if key in others]
    apart = [(limits[key], others[key]) for key in common if limits[key] != others[key]]
    if apart:
        yield (
            f"the token limits (--max-tokens) differ in {len(apart)} of {len(common)} prompts "
            f"({apart[0][0]} and {apart[0][1]}), so answers are cut unlike"
        )


def _definitions(baseline: Run, other: Run) -> Iterator[str]:
    told = [
        run.header.imported.definitions if run.header.imported else {} for run in (baseline, other)
    ]
    for name in sorted(told[0].keys() | told[1].keys()):
        mine, theirs = (definitions.get(name) for definitions in told)
        if mine != theirs:
            ours = "as in docs/method.md"
            yield f"{name} is not the same figure: baseline {mine or ours}; other {theirs or ours}"
