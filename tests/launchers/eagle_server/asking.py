"""Requests as the client plans and sends them, over its own wire."""

import asyncio
from typing import Any

from bench_client.records import Message, Sampling
from bench_client.wire.client import WireTransport
from bench_client.wire.endpoint import parse_endpoint
from bench_client.wire.payload import PATHS, request_body
from bench_client.wire.response import read_response
from bench_client.wire.stream import StreamResult
from bench_client.wire.transport import Limits, OutgoingRequest
from tests import factories


async def exchange(url: str, *requests: OutgoingRequest) -> list[StreamResult]:
    """All requests at once, over the client's own connections."""
    transport = WireTransport(parse_endpoint(url), {}, Limits(stall_s=5.0))
    await transport.open(len(requests))
    try:
        raw = await asyncio.gather(*map(transport.exchange, requests))
    finally:
        await transport.close()
    pairs = zip(raw, requests, strict=True)
    return [
        read_response(each, "chat" if sent.path == PATHS["chat"] else "completions")
        for each, sent in pairs
    ]


def planned(prompt: str = "hi", max_tokens: int = 100, **sampling: Any) -> OutgoingRequest:
    """A chat with `sampling`, greedy unless it says otherwise."""
    request = factories.planned(
        messages=(Message("user", prompt),), max_tokens=max_tokens, seed=sampling.pop("seed", 1)
    )
    plan = factories.plan(sampling=Sampling(**{"temperature": 0.0, **sampling}))
    return OutgoingRequest("r", PATHS["chat"], request_body(request, plan, "m", "eagle"))


def ask(url: str, **planned_as: Any) -> StreamResult:
    return asyncio.run(exchange(url, planned(**planned_as)))[0]
