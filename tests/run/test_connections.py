"""What a server can do to a connection: when a request is sent again, and when it is not."""

import asyncio
import socket
import time

import pytest
import uvloop

from bench_client.records import Load, Message
from bench_client.wire.client import WireTransport
from bench_client.wire.endpoint import parse_endpoint
from bench_client.wire.raw import RawResponse
from bench_client.wire.transport import Limits, OutgoingRequest
from tests.run.scripted import ANSWER, EVENT, HEAD, read_request, scripted
from tests.run.sending import Ask, send

BIG = (Message("user", "x" * 12_000_000),)  # more than two sockets hold


class _Stale:
    """Answers the first request of the first connection, then ends the connection with `last`.

    Every other connection does the same from its first request on if `always`, else it answers.
    """

    def __init__(self, last: bytes, *, always: bool = False) -> None:
        self.requests = 0
        self._last = last
        self._always = always

    def __call__(self, sock: socket.socket, number: int) -> None:
        answered = 0
        while read_request(sock):
            self.requests += 1
            spoilt = number == 0 and answered == 1
            if spoilt or (self._always and number > 0):
                sock.sendall(self._last)
                sock.close()
                return
            sock.sendall(ANSWER)
            answered += 1


def test_a_stale_connection_is_retried_once_and_silently() -> None:
    serve = _Stale(b"")
    with scripted(serve) as server:
        first, second, third = send(server.url, [Ask(), Ask(), Ask()])
    assert [record.failure for record in (first, second, third)] == [None, None, None]
    assert [record.reopened for record in (first, second, third)] == [False, True, False]
    assert serve.requests == 4


@pytest.mark.parametrize("begun", [b"H", HEAD, HEAD + b"\r\n" + b"data: "])
def test_one_byte_of_an_answer_forbids_the_retry(begun: bytes) -> None:
    serve = _Stale(begun)
    with scripted(serve) as server:
        _, second, third = send(server.url, [Ask(), Ask(), Ask()])
    assert second.failure is not None
    assert second.failure.kind == "truncated"
    assert not second.reopened
    assert third.failure is None
    assert serve.requests == 3


def test_a_retry_that_fails_is_the_last() -> None:
    serve = _Stale(b"", always=True)
    with scripted(serve) as server:
        _, second = send(server.url, [Ask(), Ask()])
    assert second.failure is not None
    assert second.failure.kind == "reset"
    assert serve.requests == 3


def test_a_fresh_connection_is_not_retried() -> None:
    seen: list[bytes] = []

    def serve(sock: socket.socket, number: int) -> None:
        seen.append(read_request(sock))
        if number == 0:  # says that it closes, so that the next connection is a fresh one
            sock.sendall(ANSWER.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1))
        sock.close()

    with scripted(serve) as server:
        first, second = send(server.url, [Ask(), Ask()])
    assert first.failure is None
    assert second.failure is not None
    assert second.failure.kind == "reset"
    assert len(seen) == 2


def test_a_connection_broken_behind_its_last_bytes_is_seen() -> None:
    """The bytes and the RST often arrive together: the reader is then called only once."""

    def serve(sock: socket.socket, number: int) -> None:
        read_request(sock)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        sock.sendall(HEAD + b"\r\n" + EVENT[:9])
        sock.close()

    with scripted(serve) as server:
        records = send(server.url, [Ask()] * 20, stall_s=0.8)
    assert {record.failure.kind for record in records if record.failure} == {"reset"}
    assert not any(record.outcome == "ok" for record in records)


def test_a_server_that_never_reads_the_request_stalls() -> None:
    with scripted(lambda sock, number: time.sleep(3)) as server:
        (record,) = send(server.url, [Ask()], messages=BIG, stall_s=0.3)
    assert record.failure is not None
    assert record.failure.kind == "stall"


def test_an_answer_that_comes_before_the_request_is_out_is_read() -> None:
    said = b'{"error":{"message":"the prompt is too long"}}'
    refusal = b"HTTP/1.1 413 Too Large\r\ncontent-type: application/json\r\n"

    def serve(sock: socket.socket, number: int) -> None:
        sock.recv(1000)
        sock.sendall(refusal + b"content-length: %d\r\n\r\n" % len(said) + said)
        time.sleep(5)

    began = time.monotonic()
    with scripted(serve) as server:
        first, second = send(server.url, [Ask(), Ask()], messages=BIG)
        assert time.monotonic() - began < 4
        assert len(server.connections) == 2  # half a request leaves a connection of no use
    for record in (first, second):
        assert record.failure is not None
        assert (record.failure.kind, record.failure.message) == (
            "http_413",
            "the prompt is too long",
        )


def test_bytes_that_trickle_in_are_progress() -> None:
    event = EVENT.replace(b'"stop"', b"null")

    def serve(sock: socket.socket, number: int) -> None:
        read_request(sock)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(HEAD + b"\r\n")
        for byte in event * 6 + EVENT:
            sock.sendall(bytes([byte]))
            time.sleep(0.002)
        sock.close()

    with scripted(serve) as server:
        (record,) = send(server.url, [Ask()], stall_s=0.6)
    assert record.failure is None
    assert record.output_text == "a" * 7
    assert record.done_ns is not None
    assert record.sent_ns is not None
    assert record.done_ns - record.sent_ns > 0.8e9


def test_a_server_that_is_gone_is_said_and_nothing_hangs() -> None:
    def serve(sock: socket.socket, number: int) -> None:
        read_request(sock)
        server.listener.shutdown(socket.SHUT_RDWR)
        sock.sendall(ANSWER)
        sock.close()

    with scripted(serve) as server:
        load = Load(kind="open", request_rate=10.0, max_concurrency=1)
        first, second = send(server.url, [Ask(), Ask(due_ms=100)], load=load)
    assert first.failure is None
    assert second.failure is not None
    assert second.failure.kind == "connect"
    assert "refused" in second.failure.message
    assert second.sent_ns is None
    assert not second.reopened


def _interrupted(url: str, after_s: float) -> RawResponse:
    """A request on a connection that is not open yet, interrupted after a while."""

    async def run() -> RawResponse:
        transport = WireTransport(parse_endpoint(url), {}, Limits(connect_s=20.0))
        asyncio.get_running_loop().call_later(after_s, transport.interrupt)
        try:
            return await transport.exchange(OutgoingRequest("r", "/v1/chat/completions", b"{}"))
        finally:
            await transport.close()

    return uvloop.run(run())


def test_connecting_is_interrupted_at_once() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        with socket.create_connection(address), socket.socket() as waiting:
            waiting.setblocking(False)
            waiting.connect_ex(address)  # now the queue is full and a third is not answered
            began = time.monotonic()
            response = _interrupted(f"http://127.0.0.1:{address[1]}", 0.1)
    assert time.monotonic() - began < 2
    assert response.fault is not None
    assert response.fault.kind == "interrupted"
    assert response.sent_ns is None


def test_nothing_is_sent_after_an_interruption() -> None:
    requests: list[bytes] = []

    async def run(url: str) -> RawResponse:
        transport = WireTransport(parse_endpoint(url), {}, Limits())
        await transport.open(1)
        transport.interrupt()
        try:
            return await transport.exchange(OutgoingRequest("r", "/v1/completions", b"{}"))
        finally:
            await transport.close()

    with scripted(lambda sock, number: requests.append(read_request(sock))) as server:
        response = uvloop.run(run(server.url))
    assert response.fault is not None
    assert response.fault.kind == "interrupted"
    assert response.sent_ns is None
    assert not any(requests)
