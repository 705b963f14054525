"""Single requests over any transport, as the runner sends them."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import msgspec
import uvloop

from bench_client.records import Api
from bench_client.run.transports import Kind, TransportSpec, make_transport
from bench_client.wire.payload import PATHS
from bench_client.wire.raw import RawResponse
from bench_client.wire.response import read_response
from bench_client.wire.stream import StreamResult
from bench_client.wire.transport import Limits, OutgoingRequest

KINDS: tuple[Kind, ...] = ("wire", "httpx", "openai")
BOUND_S = 20.0
QUESTION = "Explain how a server batches requests"


@dataclass(frozen=True)
class Answer:
    raw: RawResponse
    result: StreamResult

    @property
    def kind(self) -> str | None:
        return self.result.failure.kind if self.result.failure else None

    @property
    def message(self) -> str:
        return self.result.failure.message if self.result.failure else ""


def spec(url: str, kind: Kind, *, stall_s: float = 10.0, **changes: Any) -> TransportSpec:
    limits = changes.pop("limits", Limits(stall_s=stall_s, connect_s=5.0))
    return TransportSpec(url=url, kind=kind, limits=limits, **changes)


def ask(id_: str = "r", *, api: Api = "chat", tokens: int = 12, **fields: Any) -> OutgoingRequest:
    """A greedy request of exactly `tokens` tokens, which count themselves."""
    body: dict[str, Any] = {
        "model": "sim",
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "return_token_ids": True,
        "temperature": 0,
        "max_tokens": tokens,
        "ignore_eos": True,
    }
    if api == "chat":
        body["messages"] = [{"role": "user", "content": QUESTION}]
    else:
        body["prompt"] = QUESTION
    return OutgoingRequest(id_, PATHS[api], msgspec.json.encode(body | fields))


def exchange(
    through: TransportSpec,
    asked: OutgoingRequest,
    *,
    interrupt_after_s: float | None = None,
    blocked_s: float = 0.0,
    connect: bool = True,
) -> Answer:
    """Send one request on a connection of its own.

    The loop is blocked over and over for `blocked_s`, with a moment to read in between.
    """

    async def block() -> None:
        while True:
            time.sleep(blocked_s)  # noqa: ASYNC251 (a busy client)
            await asyncio.sleep(0.002)

    async def run() -> RawResponse:
        transport = make_transport(through)
        try:
            if connect:
                await transport.open(1)
            busy = asyncio.create_task(block()) if blocked_s else None
            if interrupt_after_s is not None:
                asyncio.get_running_loop().call_later(interrupt_after_s, transport.interrupt)
            async with asyncio.timeout(BOUND_S):
                raw = await transport.exchange(asked)
            if busy:
                busy.cancel()
            return raw
        finally:
            await transport.close()

    raw = uvloop.run(run())
    api: Api = "chat" if asked.path == PATHS["chat"] else "completions"
    return Answer(raw, read_response(raw, api))
