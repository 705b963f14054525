"""Arms to compare: the same ten prompts, plain and speculating."""

from collections.abc import Sequence
from typing import Any

import msgspec

from bench_client.records import Run

from .runs import answer, run, told

GAPS = (20, 21, 19, 20, 22, 18, 20, 21, 20, 19)


def arm(
    factor: float = 1.0, prompts: Sequence[int] = range(10), repeats: int = 1, **parts: Any
) -> Run:
    """Ten prompts, each at its own speed, 51 tokens one by one; gaps are `factor` as long."""
    records = [
        answer(i, gaps=(GAPS[i % 10] * factor,) * 50, repeat=r)
        for r in range(repeats)
        for i in prompts
    ]
    return run(records, **parts)


def speculative(accept: int = 4, step_ms: float = 40, **parts: Any) -> Run:
    """The same prompts and 50 tokens after the first, `accept` a step."""
    steps = 50 // accept
    tokens = (1, *([accept] * steps), *([50 % accept] if 50 % accept else []))
    records = [
        answer(
            i,
            gaps=(step_ms * GAPS[i] / 20,) * (len(tokens) - 1),
            tokens=tokens,
            accept=told(50, len(tokens) - 1),
        )
        for i in range(10)
    ]
    return run(records, **parts)


def changed(whole: Run, part: str, **fields: Any) -> Run:
    before = getattr(whole.header, part)
    after = msgspec.structs.replace(before, **fields)
    return msgspec.structs.replace(
        whole, header=msgspec.structs.replace(whole.header, **{part: after})
    )
