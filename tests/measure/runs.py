"""Whole runs made of a few instants, for the tests of this room."""

from collections.abc import Sequence
from typing import Any

import msgspec

from bench_client.records import (
    Accept,
    Events,
    Failure,
    Imported,
    PlannedRequest,
    RequestRecord,
    Run,
    Server,
)
from tests import factories

MS = 1_000_000


def sha(index: int) -> str:
    return f"{index:064x}"


def answer(
    index: int = 0,
    gaps: Sequence[float] = (20, 20, 20),
    tokens: Sequence[int | None] | None = None,
    *,
    sent: float = 0,
    ttft: float = 50,
    **changes: Any,
) -> RequestRecord:
    """One request, in ms: sent, its first event `ttft` later, then one event after each gap."""
    at = [sent + ttft]
    for gap in gaps:
        at.append(at[-1] + gap)
    counts = tuple([1] * len(at) if tokens is None else tokens)
    known = [count for count in counts if count is not None]
    made = factories.record(
        id=f"p{index:03}-r{changes.get('repeat', 0)}",
        prompt_index=index,
        prompt_sha256=sha(index),
        scheduled_ns=round(sent * MS),
        sent_ns=round(sent * MS),
        first_token_ns=round(at[0] * MS),
        last_token_ns=round(at[-1] * MS),
        done_ns=round(at[-1] * MS),
        output_tokens=sum(known) if len(known) == len(counts) else None,
        events=Events(tuple(round(each * MS) for each in at), counts),
        reads=len(at),
    )
    return msgspec.structs.replace(made, **changes)


def failed(index: int = 0, kind: str = "stall", **changes: Any) -> RequestRecord:
    """A request that ended badly before its first token."""
    return answer(
        index,
        outcome="failed",
        failure=Failure(kind, "said so"),
        first_token_ns=None,
        last_token_ns=None,
        output_tokens=None,
        events=Events(),
        reads=0,
        **changes,
    )


def told(tokens: int | None, steps: int, **changes: Any) -> Accept:
    """What a server says of one request."""
    return Accept(source="vllm", tokens=tokens, verify_steps=steps, **changes)


def server(**changes: Any) -> Server:
    return msgspec.structs.replace(
        Server(name="arm", url="http://127.0.0.1:1", model="qwen3-8b"), **changes
    )


def run(records: Sequence[RequestRecord], **changes: Any) -> Run:
    """A run that ended: `plan`, `server` and `client` change those parts, the rest the header."""
    made = factories.header(ended="complete", server=server())
    planned = tuple(_planned(record) for record in records)
    parts = {
        "plan": {"requests": planned, **changes.pop("plan", {})},
        "server": changes.pop("server", {}),
        "client": changes.pop("client", {}),
    }
    telemetry = changes.pop("telemetry", ())
    for part, fields in parts.items():
        whole = msgspec.structs.replace(getattr(made, part), **fields)
        made = msgspec.structs.replace(made, **{part: whole})
    return Run(
        header=msgspec.structs.replace(made, **changes),
        records=tuple(records),
        telemetry=telemetry,
    )


def _planned(record: RequestRecord) -> PlannedRequest:
    return factories.planned(
        id=record.id,
        prompt_index=record.prompt_index,
        prompt_id=f"p{record.prompt_index}",
        prompt_sha256=record.prompt_sha256,
        repeat=record.repeat,
        language="zh" if record.prompt_index % 2 else "en",
    )


def imported(
    samples: dict[str, tuple[float, ...]] | None = None,
    figures: dict[str, float | None] | None = None,
    records: Sequence[RequestRecord] = (),
    **changes: Any,
) -> Run:
    """Another tool's run."""
    told = Imported(tool="other", samples=samples or {}, figures=figures or {}, **changes)
    return run(records, imported=told, plan={"requests": ()})
