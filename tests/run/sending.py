"""Requests that go wrong one by one, sent by the real runner over the real wire."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import msgspec
import uvloop
from msgspec import Struct

from bench_client.records import (
    Api,
    Load,
    Message,
    Plan,
    PlannedRequest,
    RequestRecord,
    Sampling,
)
from bench_client.run.runner import Encode, Runner, Sink
from bench_client.run.transports import TransportSpec, make_transport
from bench_client.run.window import connections
from bench_client.wire.paced import Pacing
from bench_client.wire.payload import PATHS, request_body
from bench_client.wire.transport import Limits, OutgoingRequest, Transport
from tests.factories import plan, planned

BOUND_S = 20.0  # nothing may take longer, whatever the server does
QUESTION = (Message("user", "Explain how a server batches requests"),)
CLOSED = Load(kind="closed", concurrency=1)


class Ask(Struct, frozen=True):
    """One request of a test. `due_ms` is for an open loop."""

    fault: str | None = None
    tokens: int = 8
    due_ms: float = 0.0
    max_events: int | None = None


class Setting(Struct, frozen=True, kw_only=True):
    """How they are sent."""

    load: Load = CLOSED
    api: Api = "chat"
    stall_s: float = 10.0
    messages: tuple[Message, ...] = QUESTION
    pacing: Pacing = Pacing()


def send(url: str, asks: Sequence[Ask], **setting: Any) -> list[RequestRecord]:
    """Send them all; their records in the order of `asks`. `setting`: fields of Setting."""
    records: list[RequestRecord] = []
    ids = send_to(records.append, url, asks, Setting(**setting))
    by_id = {record.id: record for record in records}
    assert len(by_id) == len(records) == len(ids)
    return [by_id[id_] for id_ in ids]


def send_to(
    sink: Callable[[RequestRecord], None], url: str, asks: Sequence[Ask], setting: Setting
) -> list[str]:
    """Send them, each record to `sink`; their ids."""
    run_id = uuid4().hex[:8]
    requests = tuple(
        planned(
            id=f"{run_id}-{index}",
            max_tokens=ask.tokens,
            messages=setting.messages,
            scheduled_ns=round(ask.due_ms * 1e6),
        )
        for index, ask in enumerate(asks)
    )
    faults = {each.id: ask.fault for each, ask in zip(requests, asks, strict=True)}
    most = {each.id: ask.max_events for each, ask in zip(requests, asks, strict=True)}
    api = setting.api
    whole = plan(requests=requests, load=setting.load, api=api, sampling=_sampling(None))
    limits = Limits(stall_s=setting.stall_s, connect_s=2.0)
    transport = TransportSpec(url=url, limits=limits, pacing=setting.pacing)

    def encode(request: PlannedRequest) -> OutgoingRequest:
        own = msgspec.structs.replace(whole, sampling=_sampling(faults[request.id]))
        body = request_body(request, own, "sim", "vllm")
        return OutgoingRequest(request.id, PATHS[api], body, most[request.id])

    uvloop.run(_run(whole, make_transport(transport), encode, sink))
    return [request.id for request in requests]


async def _run(whole: Plan, transport: Transport, encode: Encode, sink: Sink) -> None:
    await transport.open(connections(whole))
    try:
        async with asyncio.timeout(BOUND_S):
            await Runner(whole, transport, encode, sink).run()
    finally:
        await transport.close()


def _sampling(fault: str | None) -> Sampling:
    extra = {"sim_fault": fault} if fault else {}
    return Sampling(temperature=0.0, ignore_eos=True, extra_body=extra)
