"""Runs to doubt, and what is doubted of them."""

from collections.abc import Sequence
from typing import Any

from bench_client.measure.figures import Doubt
from bench_client.measure.summary import summarize
from bench_client.records import RequestRecord, Run

from .runs import answer


def good(**changes: Any) -> list[RequestRecord]:
    """Ten requests and 10 s of decoding, one after another."""
    return [answer(i, gaps=(20,) * 50, sent=1500 * i, **changes) for i in range(10)]


def joined(tokens: Sequence[int | None] = (1, 2, 2, 2), **changes: Any) -> list[RequestRecord]:
    """Ten requests of several tokens an event."""
    gaps = (600,) * (len(tokens) - 1)
    return [answer(i, gaps=gaps, tokens=tokens, sent=3000 * i, **changes) for i in range(10)]


def doubts(whole: Run, log: float | None = None) -> dict[str, Doubt]:
    found = summarize(whole, log).doubts
    assert len({doubt.code for doubt in found}) == len(found)
    assert all(doubt.message and "\n" not in doubt.message for doubt in found)
    return {doubt.code: doubt for doubt in found}


def severity(whole: Run, code: str, log: float | None = None) -> str | None:
    doubt = doubts(whole, log).get(code)
    return doubt.severity if doubt else None
