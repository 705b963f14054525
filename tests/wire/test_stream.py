from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_client.records import Events

from .chunks import ROLE, chat, folded, read, usage


@pytest.mark.parametrize(
    ("chunks", "source", "at_ns", "tokens"),
    [
        pytest.param(
            [ROLE, chat("a", ids=[1]), chat("", ids=[2, 3]), chat("b", ids=[4], finish="stop")],
            "token_ids", (20, 30, 40), (1, 2, 1), id="ids-without-a-total",
        ),
        pytest.param(
            [chat("a", 1, [1]), chat("b", 3, [2, 3]), usage(3)],
            "token_ids", (10, 20), (1, 2), id="ids-that-add-up",
        ),
        pytest.param(
            [chat("a", 1, [1]), chat("b", 3), usage(3)],
            "usage_delta", (10, 20), (1, 2), id="ids-on-some-events-only",
        ),
        pytest.param(
            [chat("a", ids=[1]), chat("bcd"), usage(4)],
            "final_usage", (10, 20), (1, 3), id="ids-that-do-not-add-up",
        ),
        pytest.param(
            [chat("a", ids=[1]), chat("b")],
            None, (10, 20), (None, None), id="ids-on-some-events-and-no-total",
        ),
        pytest.param(
            [ROLE, chat("a", 1), chat("b", 4), chat("", 6), chat("c", 7), chat(None, 7, None, "s")],
            "usage_delta", (20, 30, 40, 50), (1, 3, 2, 1), id="growth-with-empty-text",
        ),
        pytest.param(
            [chat("a"), chat("b", 4), chat("c", 5), usage(5)],
            "usage_delta", (10, 20, 30), (0, 4, 1), id="first-event-without-usage",
        ),
        pytest.param(
            [chat("a", 1), chat("b", 2), chat(None, 5, None, "stop"), usage(5)],
            "usage_delta", (10, 20, 30), (1, 1, 3), id="the-finish-reveals-withheld-text",
        ),
        pytest.param(
            [chat("a", 1), chat("b", 2), chat(None, None, None, "stop"), usage(5)],
            "usage_delta", (10, 20), (1, 4), id="the-last-usage-reveals-withheld-text",
        ),
        pytest.param(
            [chat("a", 1), chat("b", 1), chat("c"), usage(3)],
            "usage_delta", (10, 20, 30), (1, 0, 2), id="one-token-in-two-events",
        ),
        pytest.param(
            [chat("a", ids=[1]), chat("", ids=[2]), chat("b")],
            None, (10, 20, 30), (None, None, None), id="ids-bear-even-if-they-do-not-count",
        ),
        pytest.param(
            [chat("", 1), chat("", 3, None, "stop"), usage(3)],
            "usage_delta", (10, 20), (1, 2), id="never-any-text",
        ),
        pytest.param(
            [chat("a", 2), chat("b", 1), chat("c", 4, None, "stop"), usage(4)],
            "final_usage", (10, 20, 30), (2, 1, 1), id="a-running-total-that-falls",
        ),
        pytest.param(
            [ROLE, chat("aa"), chat("bbb"), chat("c"), chat(None, 10, None, "stop")],
            "final_usage", (20, 30, 40), (3, 5, 2), id="usage-on-the-finish-chunk",
        ),
        pytest.param(
            [chat("a"), chat("b"), chat("c", 8, None, "stop")],
            "final_usage", (10, 20, 30), (3, 3, 2), id="usage-on-the-last-event-only",
        ),
        pytest.param(
            [chat("a long one"), chat("b"), chat(" c"), usage(3)],
            "final_usage", (10, 20, 30), (1, 1, 1), id="a-token-an-event",
        ),
        pytest.param(
            [chat("a long one"), chat("b"), chat("the longest of all"), chat("c"), usage(7)],
            "final_usage", (10, 20, 30, 40), (2, 1, 3, 1), id="no-text-without-a-token",
        ),
        pytest.param(
            [chat("aa"), chat("b"), usage(1)],
            "final_usage", (10, 20), (1, 0), id="fewer-tokens-than-events",
        ),
        pytest.param(
            [chat("aa"), chat("b", None, None, "stop")],
            None, (10, 20), (None, None), id="nothing-to-count-by",
        ),
        pytest.param(
            [chat("aa"), chat("b", None, None, "stop"), usage(0)],
            None, (10, 20), (None, None), id="no-tokens-cannot-be-with-text",
        ),
    ],
)  # fmt: skip
def test_tokens_of_events(
    chunks: list[dict[str, Any]],
    source: str | None,
    at_ns: tuple[int, ...],
    tokens: tuple[int | None, ...],
) -> None:
    result = read(*chunks)
    assert result.token_count_source == source
    assert result.events == Events(at_ns, tokens)
    assert result.output_tokens == (sum(count or 0 for count in tokens) if source else None)
    assert (result.first_token_ns, result.last_token_ns) == (at_ns[0], at_ns[-1])
    assert (result.token_ids is not None) == (source == "token_ids")


def test_an_answer_of_no_token_and_one_of_hidden_tokens() -> None:
    for total in (0, 5):
        result = read(ROLE, chat(None, None, None, "stop"), usage(total))
        assert result.events == Events()
        assert (result.output_tokens, result.token_count_source) == (total, "final_usage")
        assert (result.first_token_ns, result.reads) == (None, 0)


@given(st.lists(st.text("语a", min_size=1), min_size=1, max_size=20), st.integers(1, 10**6))
def test_spread_usage_sums_exactly_and_follows_the_text(texts: list[str], total: int) -> None:
    result = read(*(chat(text) for text in texts), usage(total))
    counts = [count for count in result.events.tokens if count is not None]
    assert result.output_tokens == sum(counts) == total
    assert min(counts) >= (total >= len(texts))
    length = sum(map(len, texts))
    for text, count in zip(texts, counts, strict=True):
        share = total * len(text) / length
        assert count == 1 or abs(count - share) < 1 or (count < share and min(counts) == 1)
    in_order = sorted(zip(map(len, texts), counts, strict=True))
    assert all(few <= many + 1 for (_, few), (_, many) in pairwise(in_order))


def test_events_of_one_read_are_one_read() -> None:
    payloads = [msgspec.json.encode(chat("a")) for _ in range(5)]
    result = folded(zip((5, 5, 5, 9, 9), payloads, strict=True))
    assert (len(result.events.at_ns), result.reads) == (5, 2)
