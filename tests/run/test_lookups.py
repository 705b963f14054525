"""A name server that does not answer: what asks for it can be given up at once."""

import asyncio
import signal
import socket
import threading
import time
from typing import Any

import pytest

from bench_client.run.lookups import beside, run
from bench_client.run.server_facts import ControlPlane
from bench_client.run.transports import TransportSpec, make_transport
from bench_client.wire.endpoint import Endpoint
from bench_client.wire.raw import RawResponse
from bench_client.wire.transport import OutgoingRequest
from tests.wire.exchanging import KINDS

SLOW_S = 4.0
_look_up = socket.getaddrinfo


@pytest.fixture(autouse=True)
def _slow(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        flags = more.get("flags", rest[3] if len(rest) > 3 else 0)
        if host in {"slow.test", b"slow.test"} and not flags & socket.AI_NUMERICHOST:
            # The C library's look-up does not heed signals.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            time.sleep(SLOW_S)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return _look_up(host, port, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


@pytest.mark.parametrize("kind", KINDS)
def test_an_interruption_does_not_wait_for_it(kind: Any) -> None:
    async def ask() -> RawResponse:
        transport = make_transport(TransportSpec(url="http://slow.test:80", kind=kind))
        asyncio.get_running_loop().call_later(0.3, transport.interrupt)
        body = b'{"model": "m", "messages": []}'
        try:
            return await transport.exchange(OutgoingRequest("r", "/v1/chat/completions", body))
        finally:
            await transport.close()

    began = time.monotonic()
    response = run(ask())
    assert response.fault is not None
    assert response.fault.kind == "interrupted"
    assert time.monotonic() - began < SLOW_S - 1


def test_a_signal_does_not_wait_for_it() -> None:
    endpoint = Endpoint("slow.test", 80)
    caller = threading.get_ident()
    threading.Timer(0.3, signal.pthread_kill, (caller, signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), ControlPlane(endpoint, {}) as control:
        control.identify()
    assert time.monotonic() - began < SLOW_S - 1


def test_names_and_addresses_are_found() -> None:
    async def look_up(host: str) -> set[str]:
        found = await asyncio.get_running_loop().getaddrinfo(host, 80, type=socket.SOCK_STREAM)
        return {address[0] for *_, address in found}

    assert run(look_up("127.0.0.1")) == {"127.0.0.1"}
    assert run(look_up("localhost")) <= {"127.0.0.1", "::1"}
    with pytest.raises(socket.gaierror):
        run(look_up("no-such-name.invalid"))


def test_what_goes_wrong_beside_is_raised() -> None:
    assert beside(lambda: 7).result() == 7
    with pytest.raises(ZeroDivisionError):
        beside(lambda: 1 // 0).result()
