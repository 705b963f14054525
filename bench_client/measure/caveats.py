"""What a comparison's own figures say against it, in sentences."""

from collections.abc import Iterator, Mapping

from bench_client.measure.figures import Ratio

LENGTHS_DIFFER = 0.1
PROMPT_LENGTHS_DIFFER = 0.05
TARGET = 0.02


def unequal_lengths(ratios: Mapping[str, Ratio], apart: float) -> Iterator[str]:
    """Answers of unlike length on the whole, or prompt by prompt (`apart`, a mean)."""
    lengths = ratios.get("output_tokens")
    advice = (
        "so end-to-end figures are of unlike work: compare tps_decode, or fix the length with "
        "--ignore-eos and --max-tokens"
    )
    if lengths and lengths.ratio is not None and abs(lengths.ratio - 1) > LENGTHS_DIFFER:
        which = "longer" if lengths.ratio > 1 else "shorter"
        yield f"answers are {abs(lengths.ratio - 1):.0%} {which} than the baseline's, {advice}"
    elif apart > PROMPT_LENGTHS_DIFFER:
        yield f"the two answers to a prompt differ in length by {apart:.0%} on average, {advice}"


def unseen(decode: Ratio | None, repeats: int) -> Iterator[str]:
    """What it would take to tell, where the interval holds no difference.

    Nothing where every pair has the same ratio, as in a run against itself: that is told.
    """
    if decode is None or decode.ci95 is None or decode.mdd is None:
        return
    low, high = decode.ci95
    if not low <= 1 <= high or low == high:
        return
    said = (
        "no difference in tps_decode is shown; one of "
        f"{decode.mdd:.1%} would have been, with 80% probability"
    )
    yield f"{said}{_for_target(decode, repeats)}"


def _for_target(decode: Ratio, repeats: int) -> str:
    if not decode.paired or decode.mdd is None or decode.mdd <= TARGET:
        return ""
    if decode.recommended_repeats:
        return f", and for {TARGET:.0%} about {decode.recommended_repeats} repeats are needed"
    if repeats < 2:
        return f"; --repeat 2 would show how many repeats {TARGET:.0%} takes"
    return (
        f", and for {TARGET:.0%} more prompts are needed: they gain unlike, which repeats do not "
        "average out"
    )
