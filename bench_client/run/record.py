"""One exchange, understood, to the record that is kept of it. Pure."""

import hashlib

import msgspec

from bench_client.records import Events, PlannedRequest, RequestRecord
from bench_client.wire.raw import RawResponse
from bench_client.wire.stream import StreamResult


def make_record(
    request: PlannedRequest,
    scheduled_ns: int,
    raw: RawResponse,
    result: StreamResult,
    began_ns: int,
) -> RequestRecord:
    """Instants become ns since the run began. Text and token ids are kept; `trimmed` drops them."""

    def since(at_ns: int | None) -> int | None:
        return None if at_ns is None else at_ns - began_ns

    at_ns = tuple(at - began_ns for at in result.events.at_ns)
    return RequestRecord(
        id=request.id,
        prompt_index=request.prompt_index,
        prompt_sha256=request.prompt_sha256,
        repeat=request.repeat,
        scheduled_ns=scheduled_ns - began_ns,
        sent_ns=since(raw.sent_ns),
        first_token_ns=since(result.first_token_ns),
        last_token_ns=since(result.last_token_ns),
        done_ns=since(raw.done_ns),
        outcome="failed" if result.failure else "ok",
        failure=result.failure,
        finish_reason=result.finish_reason,
        input_tokens=result.input_tokens,
        output_tokens=result.output_tokens,
        token_count_source=result.token_count_source,
        stamps=raw.stamps,
        events=Events(at_ns, result.events.tokens),
        reads=result.reads,
        accept=result.accept,
        output_sha256=_sha256(result.text),
        output_text=result.text,
        output_token_ids=result.token_ids,
        cached_tokens=result.cached_tokens,
        reopened=raw.reopened,
        rate_limited=raw.rate_limited,
    )


def trimmed(record: RequestRecord, *, text: bool, token_ids: bool) -> RequestRecord:
    """The record without what was not asked to be saved."""
    return msgspec.structs.replace(
        record,
        output_text=record.output_text if text else None,
        output_token_ids=record.output_token_ids if token_ids else None,
    )


def _sha256(text: str) -> str | None:
    return hashlib.sha256(text.encode()).hexdigest() if text else None
