"""What comes out of each step of EaModel, and where the answer ends. Pure."""

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

Finish = Literal["stop", "length"]


@dataclass(frozen=True)
class Step:
    """One verify step, or one token of a plain answer.

    `token_ids` leaves out what stands behind the answer's end; `accepted` drafts counts it in.
    """

    token_ids: tuple[int, ...]
    accepted: int
    finish: Finish | None = None


class Acceptance:
    """Verify steps, told apart by how many drafts each accepted (0 to `longest`)."""

    def __init__(self, longest: int) -> None:
        self.histogram = [0] * (longest + 1)

    def count(self, step: Step) -> None:
        """Add one step."""
        self.histogram[step.accepted] += 1

    @property
    def longest(self) -> int:
        """The most drafts that a step can accept."""
        return len(self.histogram) - 1

    @property
    def steps(self) -> int:
        """Verify steps so far."""
        return sum(self.histogram)

    @property
    def accepted(self) -> int:
        """Accepted drafts, without the token that the target itself adds in each step."""
        return sum(drafts * steps for drafts, steps in enumerate(self.histogram))

    @property
    def accept_length(self) -> float:
        """Tokens a step, the target's own included; ZeroDivisionError before the first step."""
        return 1 + self.accepted / self.steps

    @property
    def per_position(self) -> list[int]:
        """How often the draft at each position was accepted."""
        return [sum(self.histogram[position + 1 :]) for position in range(self.longest)]


def answer_steps(
    blocks: Generator[list[int], None, None], max_tokens: int, stop: frozenset[int]
) -> Generator[Step, None, None]:
    """Blocks of new tokens as steps, to the first token of `stop` (kept) or to `max_tokens`.

    Closes `blocks` in the end. Raises RuntimeError if they run out before the answer has ended.
    """
    emitted = 0
    with closing(blocks):
        for block in blocks:
            kept, finish = _cut(block, max_tokens - emitted, stop)
            emitted += len(kept)
            yield Step(tuple(kept), len(block) - 1, finish)
            if finish:
                return
    raise RuntimeError(f"EaModel ended by itself after {emitted} of {max_tokens} tokens")


def _cut(block: list[int], room: int, stop: frozenset[int]) -> tuple[list[int], Finish | None]:
    for at, token in enumerate(block[:room]):
        if token in stop:
            return block[: at + 1], "stop"
    return block[:room], "length" if len(block) >= room else None
