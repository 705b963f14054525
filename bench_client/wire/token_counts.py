"""How the tokens of an answer are counted.

Decided once for a whole answer; the first source that adds up:

1. `token_ids`: the ids on the events, if their number is the server's own total (or, without a
   total, if every event with text has them).
2. `usage_delta`, on `/generate` called `native`: the growth of the server's running total, each
   growth on the event that carried it, if most events with text carry the total and it never
   falls. Tokens that only the usage after the last choice reveals (text held back and never
   sent) go to the last event.
3. `final_usage`: the total, spread over the events by the length of their text, one each at
   least if it is enough for that.
4. Nothing: counts are null. A chunk is never taken for a token, nor the length asked for.
"""

from heapq import heapify, heapreplace
from operator import gt
from typing import Literal

from bench_client.records import TokenCountSource
from bench_client.wire.chunk import Chunk, last_known


def count_tokens(
    chunks: list[Chunk], total_source: Literal["usage_delta", "native"]
) -> tuple[TokenCountSource | None, list[int]]:
    """The source that adds up and the tokens of each chunk (the rule at the top)."""
    totals = [chunk.total_tokens for chunk in chunks]
    total = last_known(totals)
    ids = [chunk.token_ids for chunk in chunks]
    if any(ids):
        counts = [len(each or ()) for each in ids]
        everywhere = all(chunk.token_ids is not None for chunk in chunks if chunk.text)
        if everywhere if total is None else sum(counts) == total:
            return "token_ids", counts
    growth = _growth(chunks)
    if any(growth):
        return total_source, growth
    lengths = [len(chunk.text) for chunk in chunks]
    if any(lengths) and total is not None and total > 0:
        return "final_usage", _spread(total, lengths)
    return None, [0] * len(chunks)


def _growth(chunks: list[Chunk]) -> list[int]:
    """Growth of the running total on each chunk; all zero if it isn't a running total."""
    counts = [0] * len(chunks)
    with_text = [chunk.total_tokens for chunk in chunks if chunk.text]
    if with_text and 2 * with_text.count(None) >= len(with_text):
        return counts
    totals = [chunk.total_tokens for chunk in chunks if chunk.total_tokens is not None]
    if any(map(gt, totals, totals[1:])):
        return counts
    seen, last_event = 0, None
    for index, chunk in enumerate(chunks):
        gained = 0 if chunk.total_tokens is None else chunk.total_tokens - seen
        if not chunk.trailing and (gained or chunk.text):
            last_event = index
        if last_event is not None:
            counts[last_event] += gained
            seen += gained
    return counts


def _spread(total: int, weights: list[int]) -> list[int]:
    """Integers that sum to `total`, in proportion to `weights` (largest remainder).

    No text comes without a token: if there are enough, what got none takes one from the richest.
    """
    whole = sum(weights)
    shares = [total * weight // whole for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda i: -(total * weights[i] % whole))
    for index in by_remainder[: total - sum(shares)]:
        shares[index] += 1
    if total < len(weights) - weights.count(0):
        return shares
    richest = [(-share, index) for index, share in enumerate(shares)]
    heapify(richest)
    for index, weight in enumerate(weights):
        if weight and not shares[index]:
            debt, lender = richest[0]
            heapreplace(richest, (debt + 1, lender))
            shares[index], shares[lender] = 1, -debt - 1
    return shares
