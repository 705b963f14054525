import asyncio
import time
from dataclasses import dataclass, field

import pytest

from bench_client.wire.paced import PacedTransport, Pacing, retry_after_s
from bench_client.wire.raw import RawResponse
from bench_client.wire.transport import OutgoingRequest

REQUEST = OutgoingRequest("r", "/v1/completions", b"{}")


@dataclass
class Scripted:
    """A transport that answers with the statuses given, the last one for ever."""

    statuses: list[int]
    retry_after: str = "0.01"
    name: str = "scripted"
    connect_ms: list[float] = field(default_factory=list)
    sent_at: list[float] = field(default_factory=list)

    async def open(self, connections: int) -> None: ...

    async def exchange(self, request: OutgoingRequest) -> RawResponse:
        self.sent_at.append(time.monotonic())
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        return RawResponse(status=status, headers={"retry-after": self.retry_after})

    def interrupt(self) -> None: ...

    async def close(self) -> None: ...


def test_a_429_is_waited_for_and_counted_where_asked() -> None:
    async def run() -> tuple[RawResponse, Scripted]:
        inner = Scripted([429, 429, 200], retry_after="0.05")
        response = await PacedTransport(inner, Pacing(retry_429=True)).exchange(REQUEST)
        return response, inner

    response, inner = asyncio.run(run())
    assert response.status == 200
    assert response.rate_limited == 2
    assert inner.sent_at[2] - inner.sent_at[0] >= 0.1


def test_a_429_stands_where_not_asked() -> None:
    inner = Scripted([429, 200])

    async def run() -> RawResponse:
        return await PacedTransport(inner, Pacing(requests=100)).exchange(REQUEST)

    response = asyncio.run(run())
    assert response.status == 429
    assert response.rate_limited == 0
    assert len(inner.sent_at) == 1


def test_a_server_that_never_relents_is_given_up() -> None:
    inner = Scripted([429], retry_after="0")

    async def run() -> RawResponse:
        return await PacedTransport(inner, Pacing(retry_429=True)).exchange(REQUEST)

    assert asyncio.run(run()).status == 429
    assert len(inner.sent_at) == 10


def test_no_more_than_the_rate() -> None:
    inner = Scripted([200])

    async def run() -> None:
        paced = PacedTransport(inner, Pacing(requests=2, period_s=0.2))
        await asyncio.gather(*(paced.exchange(REQUEST) for _ in range(5)))

    asyncio.run(run())
    gaps = [late - early for early, late in zip(inner.sent_at, inner.sent_at[2:], strict=False)]
    assert min(gaps) >= 0.19


@pytest.mark.parametrize("pacing", [Pacing(requests=1, period_s=60.0), Pacing(retry_429=True)])
def test_an_interruption_ends_every_wait(pacing: Pacing) -> None:
    inner = Scripted([429], retry_after="60")

    async def run() -> list[RawResponse]:
        paced = PacedTransport(inner, pacing)
        waiting = [asyncio.create_task(paced.exchange(REQUEST)) for _ in range(2)]
        await asyncio.sleep(0.05)
        paced.interrupt()
        return await asyncio.wait_for(asyncio.gather(*waiting), 2.0)

    assert len(asyncio.run(run())) == 2


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("3", 3.0),
        ("0.5", 0.5),
        ("", 1.0),
        ("soon", 1.0),
        ("-4", 0.0),
        ("1e9", 120.0),
        ("Thu, 01 Jan 1970 00:16:50 GMT", 10.0),
    ],
)
def test_retry_after(header: str, seconds: float) -> None:
    response = RawResponse(headers={"retry-after": header} if header else {})
    assert retry_after_s(response, now=1000.0) == pytest.approx(seconds)
