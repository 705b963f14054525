"""Streams of `/v1/chat/completions` and `/v1/completions`, as any of the servers sends them.

vLLM, SGLang and transformers serve differ in where usage, token ids and speculation stand; see
`Chunk` for what they come to. Only the choice of index 0 is read.
"""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from bench_client.records import Accept, Failure
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


class _Function(Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(Struct, gc=False):
    function: _Function | None = None


class _Delta(Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_ToolCall | None] | None = None

    def text(self) -> str:
        if not (self.tool_calls or self.reasoning or self.reasoning_content):
            return self.content or ""
        # vLLM sent the same reasoning under both names for a while
        text = (self.reasoning or self.reasoning_content or "") + (self.content or "")
        for call in self.tool_calls or ():
            if call and call.function:
                text += (call.function.name or "") + (call.function.arguments or "")
        return text


class _Choice(Struct, gc=False):
    index: int | None = None
    delta: _Delta | None = None
    text: str | None = None
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None
    finish_reason: str | None = None


class _PromptTokens(Struct, gc=False):
    cached_tokens: Count | None = None


class _Usage(Struct, gc=False):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    prompt_tokens_details: _PromptTokens | None = None


class _Speculation(Struct, gc=False):
    num_spec_steps: Count | None = None
    num_accepted_draft_tokens: Count | None = None
    num_draft_tokens: Count | None = None
    acceptance_histogram: list[int] | None = None
    tokens: Count | None = None  # not vLLM's: all that came out of verify steps

    def accept(self) -> Accept | None:
        if self.num_spec_steps is None:
            return None
        return Accept(
            source="metrics.speculative_decoding",
            verify_steps=self.num_spec_steps,
            tokens=self.tokens,
            accepted_tokens=self.num_accepted_draft_tokens,
            draft_tokens=self.num_draft_tokens,
            histogram=tuple(self.acceptance_histogram or ()),
        )


class _Metrics(Struct, gc=False):
    speculative_decoding: _Speculation | None = None


class _SglExt(Struct, gc=False):
    spec_tokens_details: SglangSpeculation | None = None


class _Payload(Payload, gc=False):
    choices: list[_Choice | None] | None = None
    usage: _Usage | None = None
    prompt_token_ids: list[int] | None = None
    metrics: _Metrics | None = None
    sglext: _SglExt | None = None

    def text_alone(self) -> _Choice | None:
        """The choice of an event that holds nothing else, as most do; null for any other event."""
        choices = self.choices
        if self.usage or self.metrics or self.sglext or self.prompt_token_ids:
            return None
        if not choices or len(choices) != 1:
            return None
        choice = choices[0]
        if not choice or choice.index or choice.finish_reason or choice.prompt_token_ids:
            return None
        return choice

    def accept(self) -> Accept | None:
        if self.metrics and self.metrics.speculative_decoding:
            return self.metrics.speculative_decoding.accept()
        if self.sglext and self.sglext.spec_tokens_details:
            return self.sglext.spec_tokens_details.accept("sglext.spec_tokens_details")
        return None


_NO_USAGE = _Usage()
_NO_CHOICE = _Choice()
_decode = msgspec.json.Decoder(_Payload).decode


def fold(events: Iterable[tuple[int, bytes]], preamble: int = 0) -> Steps[StreamResult]:
    """The data of each event with its arrival (ns), as one answer; nothing after `[DONE]` counts.

    `failure` is what the stream told of (`error_event`, `abort`, `bad_event`), not how it ended.
    The first `preamble` events of text are left out: the server sent them before it generated.
    """
    chunks = yield from in_steps(until_done(events), _read_chunk)
    if preamble:
        with_text = [index for index, (_, chunk) in enumerate(chunks) if chunk.text]
        early = set(with_text[:preamble])
        chunks = [each for index, each in enumerate(chunks) if index not in early]
    return add_up(chunks, "usage_delta")


def _read_chunk(payload: bytes) -> Chunk:
    said = decode_event(_decode, payload)
    if isinstance(said, Failure):
        return Chunk(failure=said)
    choice = said.text_alone()
    if choice is None:
        return _whole_chunk(said)
    text = choice.delta.text() if choice.delta else choice.text or ""
    return Chunk(text=text, token_ids=choice.token_ids)


def _whole_chunk(said: _Payload) -> Chunk:
    usage = said.usage or _NO_USAGE
    choice = _NO_CHOICE
    if said.choices:
        choice = next((each for each in said.choices if each and not each.index), _NO_CHOICE)
    prompt_ids = said.prompt_token_ids or choice.prompt_token_ids
    return Chunk(
        text=choice.delta.text() if choice.delta else choice.text or "",
        token_ids=choice.token_ids,
        total_tokens=usage.completion_tokens,
        trailing=not said.choices,
        finish_reason=choice.finish_reason,
        failure=finish_failure(choice.finish_reason),
        input_tokens=len(prompt_ids) if prompt_ids else usage.prompt_tokens,
        cached_tokens=details.cached_tokens if (details := usage.prompt_tokens_details) else None,
        accept=said.accept(),
    )
