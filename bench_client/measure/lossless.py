"""Whether two arms gave the same answers. See docs/method.md, "Lossless"."""

from bench_client.measure.figures import Lossless
from bench_client.measure.timeline import ok_records
from bench_client.records import RequestRecord, Run

Pairs = list[tuple[RequestRecord, RequestRecord]]


def lossless(baseline: Run, other: Run) -> Lossless | None:
    """Greedy answers of both arms compared, prompt by prompt; null where there are none to compare.

    Sampled answers differ by nature: only their lengths and finish reasons are told.
    """
    pairs = _pairs(baseline, other)
    if not pairs:
        return None
    temperatures = [run.header.plan.sampling.temperature for run in (baseline, other)]
    if any(temperatures):
        return _sampled(pairs, max(temperatures))
    comparable = [(mine, theirs) for mine, theirs in pairs if _same(mine, theirs) is not None]
    names = {each.prompt_index: each.prompt_id for each in baseline.header.plan.requests}
    differing = [pair for pair in comparable if not _same(*pair)]
    places: dict[str, int] = {}
    for mine, theirs in differing:
        place = _first_difference(mine, theirs)
        if place is not None:
            name = names.get(mine.prompt_index) or mine.prompt_sha256
            places[name] = min(place, places.get(name, place))
    equal = len(comparable) - len(differing)
    return Lossless(
        compared=len(comparable),
        equal=equal,
        first_difference=places,
        sentence=_sentence(equal, len(comparable), places),
    )


def _pairs(baseline: Run, other: Run) -> Pairs:
    """The answers to the same prompt in the same repeat."""
    if any(run.header.imported for run in (baseline, other)):
        return []
    mine = {(each.prompt_sha256, each.repeat): each for each in ok_records(baseline)}
    theirs = {(each.prompt_sha256, each.repeat): each for each in ok_records(other)}
    return [(mine[key], theirs[key]) for key in mine if key in theirs]


def _same(mine: RequestRecord, theirs: RequestRecord) -> bool | None:
    """By token ids, else by the text's hash; null where neither is known on both sides."""
    if mine.output_token_ids is not None and theirs.output_token_ids is not None:
        return mine.output_token_ids == theirs.output_token_ids
    if mine.output_sha256 is None or theirs.output_sha256 is None:
        return None
    return mine.output_sha256 == theirs.output_sha256


def _first_difference(mine: RequestRecord, theirs: RequestRecord) -> int | None:
    """Index of the first token that differs, or where the shorter answer ends."""
    if mine.output_token_ids is None or theirs.output_token_ids is None:
        return None
    pairs = zip(mine.output_token_ids, theirs.output_token_ids, strict=False)
    shorter = min(len(mine.output_token_ids), len(theirs.output_token_ids))
    return next((i for i, (a, b) in enumerate(pairs) if a != b), shorter)


def _sentence(equal: int, compared: int, places: dict[str, int]) -> str:
    if not compared:
        return "greedy answers could not be compared: neither token ids nor text hashes are known"
    if equal == compared:
        return f"all {compared} greedy answers are the same"
    where = f"; the first differences are at tokens {_listed(places)}" if places else ""
    return (
        f"{equal} of {compared} greedy answers are the same{where}: rounding flips near ties late "
        "in an answer, early differences everywhere mean that the arms do not run the same model"
    )


def _listed(places: dict[str, int]) -> str:
    return ", ".join(str(place) for place in sorted(places.values()))


def _sampled(pairs: Pairs, temperature: float) -> Lossless:
    same_end = sum(mine.finish_reason == theirs.finish_reason for mine, theirs in pairs)
    lengths = [
        (mine.output_tokens, theirs.output_tokens)
        for mine, theirs in pairs
        if mine.output_tokens is not None and theirs.output_tokens is not None
    ]
    told = ""
    if lengths:
        means = [sum(side) / len(lengths) for side in zip(*lengths, strict=True)]
        told = f", and mean lengths are {means[0]:.0f} against {means[1]:.0f} tokens"
    return Lossless(
        compared=0,
        equal=0,
        sentence=f"answers are sampled (temperature {temperature:g}) and cannot be compared; "
        f"finish reasons agree in {same_end} of {len(pairs)}{told}",
    )
