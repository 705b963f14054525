"""Chunks of a chat stream, written by hand."""

from collections.abc import Iterable
from typing import Any

import msgspec

from bench_client.wire.openai_stream import fold
from bench_client.wire.stream import StreamResult, at_once

ROLE: dict[str, Any] = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}


def chat(
    text: str | None = None,
    total: int | None = None,
    ids: list[int] | None = None,
    finish: str | None = None,
) -> dict[str, Any]:
    """A chunk of a chat stream with the fields given, the others null."""
    choice = {"index": 0, "delta": {"content": text}, "token_ids": ids, "finish_reason": finish}
    return {"choices": [choice], "usage": total_usage(total)}


def folded(events: Iterable[tuple[int, bytes]], preamble: int = 0) -> StreamResult:
    return at_once(fold(events, preamble))


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields}]}


def usage(total: int, **fields: Any) -> dict[str, Any]:
    """The chunk after the last choice."""
    return {"choices": [], "usage": total_usage(total), **fields}


def total_usage(total: int | None) -> dict[str, int] | None:
    return None if total is None else {"prompt_tokens": 7, "completion_tokens": total}


def read(*chunks: dict[str, Any] | bytes) -> StreamResult:
    """The chunks, arriving at 10, 20, 30, ..."""
    encoded = (each if isinstance(each, bytes) else msgspec.json.encode(each) for each in chunks)
    return folded((10 * number, payload) for number, payload in enumerate(encoded, 1))
