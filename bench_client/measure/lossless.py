"""Whether two arms gave the same answers. See docs/method.md, "Lossless"."""

import statistics
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from bench_client.measure.figures import Lossless
from bench_client.measure.timeline import ok_records
from bench_client.records import RequestRecord, Run

Pair = tuple[RequestRecord, RequestRecord]
Pairs = list[Pair]

CUT = "length"  # the finish reason of an answer that its token limit ended
UNFINISHED_CHARACTER = "\ufffd"  # what a cut may leave of a character of several tokens


def lossless(baseline: Run, other: Run) -> Lossless | None:
    """Greedy answers of both arms compared, prompt by prompt; null where there are none to compare.

    Answers that are the same until a token limit cuts one of them count as equal. Sampled answers
    differ by nature: only their lengths and finish reasons are told.
    """
    pairs = _pairs(baseline, other)
    if not pairs:
        return None
    temperatures = [run.header.plan.sampling.temperature for run in (baseline, other)]
    if any(temperatures):
        return _sampled(pairs, max(temperatures))
    return _greedy(pairs, _names(baseline))


def _names(run: Run) -> dict[int, str | None]:
    return {each.prompt_index: each.prompt_id for each in run.header.plan.requests}


def _greedy(pairs: Pairs, names: dict[int, str | None]) -> Lossless:
    same = [_same(*pair) for pair in pairs]
    compared = sum(each is not None for each in same)
    places: dict[str, int] = {}
    for (mine, theirs), each in zip(pairs, same, strict=True):
        place = _first_difference(mine, theirs) if each is False else None
        if place is not None:
            name = names.get(mine.prompt_index) or mine.prompt_sha256
            places[name] = min(place, places.get(name, place))
    found = Lossless(
        compared=compared,
        equal=sum(each is True for each in same),
        first_difference=places,
        uncompared=len(pairs) - compared,
        cut=sum(
            each is True and _one_is_cut(*pair) for pair, each in zip(pairs, same, strict=True)
        ),
        finish_reasons_differ=sum(_ends_unlike(*pair) for pair in pairs),
    )
    return replace(found, sentence="; ".join(_told(found, len(pairs))))


def lengths_apart(baseline: Run, other: Run) -> float:
    """Mean over prompts and repeats of the longer answer's length over the shorter's, less 1."""
    apart = [
        max(mine.output_tokens, theirs.output_tokens)
        / min(mine.output_tokens, theirs.output_tokens)
        - 1
        for mine, theirs in _pairs(baseline, other)
        if mine.output_tokens and theirs.output_tokens
    ]
    return statistics.fmean(apart) if apart else 0.0


def _pairs(baseline: Run, other: Run) -> Pairs:
    """The answers to the same prompt in the same repeat."""
    if any(run.header.imported for run in (baseline, other)):
        return []
    mine = {(each.prompt_sha256, each.repeat): each for each in ok_records(baseline)}
    theirs = {(each.prompt_sha256, each.repeat): each for each in ok_records(other)}
    return [(mine[key], theirs[key]) for key in mine if key in theirs]


def _same(mine: RequestRecord, theirs: RequestRecord) -> bool | None:
    """By token ids, else by the text or its hash; null where that is not known on both sides.

    Of a cut answer only what it has can be compared, for which a hash is not enough.
    """
    if mine.output_token_ids is not None and theirs.output_token_ids is not None:
        ids = mine.output_token_ids, theirs.output_token_ids
        return ids[0] == ids[1] or (_one_is_cut(mine, theirs) and _begins(*ids))
    if mine.output_sha256 is not None and mine.output_sha256 == theirs.output_sha256:
        return True
    if mine.output_text is not None and theirs.output_text is not None:
        texts = mine.output_text, theirs.output_text
        if not _one_is_cut(mine, theirs):
            return texts[0] == texts[1]
        return _begins(*(text.rstrip(UNFINISHED_CHARACTER) for text in texts))
    if mine.output_sha256 is None or theirs.output_sha256 is None or _one_is_cut(mine, theirs):
        return None
    return False


def _begins(one: Sequence[object], another: Sequence[object]) -> bool:
    """Whether the shorter is the beginning of the longer."""
    shorter = min(len(one), len(another))
    return one[:shorter] == another[:shorter]


def _one_is_cut(mine: RequestRecord, theirs: RequestRecord) -> bool:
    """Whether a token limit ended one answer before the other was as long."""
    lengths = mine.output_tokens, theirs.output_tokens
    if mine.output_token_ids is not None and theirs.output_token_ids is not None:
        lengths = len(mine.output_token_ids), len(theirs.output_token_ids)
    if lengths[0] is None or lengths[1] is None:
        return CUT in (mine.finish_reason, theirs.finish_reason)
    shorter = mine if lengths[0] < lengths[1] else theirs
    return lengths[0] != lengths[1] and shorter.finish_reason == CUT


def _ends_unlike(mine: RequestRecord, theirs: RequestRecord) -> bool:
    """Whether finish reasons differ for another reason than an unlike token limit."""
    known = mine.finish_reason is not None and theirs.finish_reason is not None
    return known and mine.finish_reason != theirs.finish_reason and not _one_is_cut(mine, theirs)


def _first_difference(mine: RequestRecord, theirs: RequestRecord) -> int | None:
    """Index of the first token that differs, or where the shorter answer ends."""
    if mine.output_token_ids is None or theirs.output_token_ids is None:
        return None
    pairs = zip(mine.output_token_ids, theirs.output_token_ids, strict=False)
    shorter = min(len(mine.output_token_ids), len(theirs.output_token_ids))
    return next((i for i, (a, b) in enumerate(pairs) if a != b), shorter)


def _told(found: Lossless, pairs: int) -> Iterator[str]:
    if found.compared:
        yield _equal(found)
    if found.compared and found.uncompared:
        yield f"{found.uncompared} of {pairs} could not be compared"
    elif found.uncompared:
        yield (
            "greedy answers could not be compared: token ids, texts and their hashes are not "
            "known, or one answer of each pair is cut at its token limit"
        )
    if found.finish_reasons_differ:
        yield f"finish reasons differ in {found.finish_reasons_differ} of {pairs}"


def _equal(found: Lossless) -> str:
    until = "up to where a token limit cuts one"
    cut = f", {found.cut} of them {until}" if found.cut else ""
    cut = f" {until}" if found.cut == found.equal > 0 else cut
    if found.equal == found.compared:
        every = f"all {found.compared}" + (" comparable" if found.uncompared else "")
        return f"{every} greedy answers are the same{cut}"
    places = ", ".join(str(place) for place in sorted(found.first_difference.values()))
    where = f"; the first differences are at tokens {places}" if places else ""
    return (
        f"{found.equal} of {found.compared} greedy answers are the same{cut}{where}: rounding "
        "flips near ties late in an answer, early differences everywhere mean that the arms do not "
        "run the same model"
    )


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
