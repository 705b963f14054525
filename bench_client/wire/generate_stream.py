"""Streams of SGLang's native `/generate`.

Text and ids are cumulative unless the server was told to send increments. The two are told apart
one by one: older versions send the ids in increments and the text whole.
"""

from collections.abc import Iterable
from itertools import pairwise

import msgspec
from msgspec import Struct

from bench_client.records import Failure
from bench_client.wire.chunk import Chunk, Count, SglangSpeculation
from bench_client.wire.stream import (
    Payload,
    Steps,
    StreamResult,
    add_up,
    decode_event,
    finish_failure,
    in_steps,
    until_done,
)


class _Finish(Struct, gc=False):
    type: str | None = None
    message: str | None = None


class _MetaInfo(SglangSpeculation, frozen=True, kw_only=True):
    finish_reason: _Finish | str | None = None
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    cached_tokens: Count | None = None


class _Payload(Payload, gc=False):
    index: int | None = None
    text: str | None = None
    output_ids: list[int] | None = None
    meta_info: _MetaInfo | None = None


class _Text(Struct, gc=False):
    index: int | None = None
    text: str | None = None


_NO_META = _MetaInfo()
_UNFINISHED = _Finish()
_decode = msgspec.json.Decoder(_Payload).decode
_decode_text = msgspec.json.Decoder(_Text).decode


def fold(events: Iterable[tuple[int, bytes]]) -> Steps[StreamResult]:
    """The data of each event with its arrival (ns), as one answer; nothing after `[DONE]` counts.

    `failure` is what the stream told of (`error_event`, `abort`, `bad_event`), not how it ended.
    """
    before_done = until_done(events)
    reader = _Reader(cumulative_text=_is_cumulative([payload for _, payload in before_done[:16]]))
    chunks = yield from in_steps(before_done, reader.chunk)
    return add_up(chunks, "native")


def _is_cumulative(payloads: list[bytes]) -> bool:
    """Whether each text begins with the one before; the last may be cut back at a stop string."""
    texts = []
    for payload in payloads:
        try:
            said = _decode_text(payload)
        except (msgspec.DecodeError, RecursionError):
            continue
        if said.text and not said.index:
            texts.append(said.text)
    grows = [later.startswith(earlier) for earlier, later in pairwise(texts)]
    return all(grows[:-1]) and (all(grows) or texts[-2].startswith(texts[-1]))


class _Reader:
    """What is new in each event, against the events before it."""

    def __init__(self, *, cumulative_text: bool) -> None:
        self._cumulative_text = cumulative_text
        self._seen_chars = 0
        self._seen_tokens = 0

    def chunk(self, payload: bytes) -> Chunk:
        said = decode_event(_decode, payload)
        if isinstance(said, Failure):
            return Chunk(failure=said)
        if said.index:
            return Chunk()
        meta = said.meta_info or _NO_META
        finish = meta.finish_reason or _UNFINISHED
        if isinstance(finish, str):
            finish = _Finish(finish)
        return Chunk(
            text=self._new_text(said.text or ""),
            token_ids=self._new_ids(said.output_ids, meta.completion_tokens),
            total_tokens=meta.completion_tokens,
            finish_reason=finish.type,
            failure=finish_failure(finish.type, finish.message),
            input_tokens=meta.prompt_tokens,
            cached_tokens=meta.cached_tokens,
            accept=meta.accept("meta_info"),
        )

    def _new_text(self, text: str) -> str:
        new = text[self._seen_chars :] if self._cumulative_text else text
        self._seen_chars += len(new)
        return new

    def _new_ids(self, ids: list[int] | None, total: int | None) -> list[int] | None:
        if ids is None or total is None:
            return None
        seen, self._seen_tokens = self._seen_tokens, total
        return ids[seen:] if len(ids) == total else ids
