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
from tests.run.scripted import ANSWER, EVENT, HEAD, Serve, read_request, scripted
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


def _numbered(number: int) -> bytes:
    """An answer whose text is its number."""
    event = EVENT.replace(b'"a"', b'"%d"' % number)
    return HEAD + b"content-length: %d\r\n\r\n" % len(event) + event


@pytest.mark.parametrize("apart_s", [0.0, 0.05])
@pytest.mark.parametrize(
    "interim", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 E\r\na: b\r\n\r\n"]
)
def test_an_interim_response_shifts_no_answer(interim: bytes, apart_s: float) -> None:
    def serve(sock: socket.socket, number: int) -> None:
        answered = 0
        while read_request(sock):
            sock.sendall(interim if apart_s else interim + _numbered(answered))
            if apart_s:
                time.sleep(apart_s)
                sock.sendall(_numbered(answered))
            answered += 1

    with scripted(serve) as server:
        records = send(server.url, [Ask()] * 4)
        assert len(server.connections) == 1
    assert [record.failure for record in records] == [None] * 4
    assert [record.output_text for record in records] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("apart_s", [0.0, 0.05])
def test_what_follows_an_answer_is_never_taken_for_the_next(apart_s: float) -> None:
    """Even if it lies there, unread, when the next request leaves."""

    def serve(sock: socket.socket, number: int) -> None:
        while read_request(sock):
            sock.sendall(_numbered(number))
            time.sleep(apart_s)
            sock.sendall(_numbered(99))

    load = Load(kind="open", request_rate=10.0, max_concurrency=1)
    with scripted(serve) as server:
        asks = [Ask(due_ms=150 * index) for index in range(3)]
        records = send(server.url, asks, load=load)
    assert [record.failure for record in records] == [None] * 3
    assert [record.output_text for record in records] == ["0", "1", "2"]
    assert not any(record.reopened for record in records)


def test_unread_bytes_are_found_before_a_request_leaves() -> None:
    """The loop was busy while they came."""

    def serve(sock: socket.socket, number: int) -> None:
        while read_request(sock):
            sock.sendall(_numbered(number))
            time.sleep(0.05)
            sock.sendall(_numbered(99))

    async def run(url: str) -> list[RawResponse]:
        transport = WireTransport(parse_endpoint(url), {}, Limits())
        await transport.open(1)
        answers = []
        for _ in range(3):
            answers.append(await transport.exchange(OutgoingRequest("r", "/v1/x", b"{}")))
            time.sleep(0.15)  # noqa: ASYNC251 (a busy client)
        await transport.close()
        return answers

    with scripted(serve) as server:
        answers = uvloop.run(run(server.url))
    texts = [b"".join(data for _, data in answer.reads) for answer in answers]
    assert [b'"%d"' % number in text for number, text in enumerate(texts)] == [True] * 3
    assert not any(b'"99"' in text for text in texts)


def _closing(sock: socket.socket, number: int) -> None:
    while read_request(sock):
        sock.sendall(ANSWER.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1))
        sock.close()


def _http10(sock: socket.socket, number: int) -> None:
    read_request(sock)
    sock.sendall(HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n" + EVENT)
    sock.close()


def _cut(sock: socket.socket, number: int) -> None:
    read_request(sock)
    sock.sendall(HEAD + b"content-length: 9999\r\n\r\n" + EVENT)
    sock.close()


def _reset(sock: socket.socket, number: int) -> None:
    read_request(sock)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    sock.close()


def _stalled(sock: socket.socket, number: int) -> None:
    read_request(sock)
    time.sleep(0.5)


@pytest.mark.parametrize("serve", [_closing, _http10, _cut, _reset, _stalled])
def test_only_a_connection_closed_while_idle_counts_as_reopened(serve: Serve) -> None:
    with scripted(serve) as server:
        load = Load(kind="open", request_rate=10.0, max_concurrency=1)
        asks = [Ask(due_ms=300 * index) for index in range(3)]
        records = send(server.url, asks, load=load, stall_s=0.2)
        assert len(server.connections) >= 3
    assert not any(record.reopened for record in records)


def test_a_connection_closed_before_its_first_request_was_idle() -> None:
    def serve(sock: socket.socket, number: int) -> None:
        if number == 0:
            sock.close()
        while read_request(sock):
            sock.sendall(ANSWER)

    with scripted(serve) as server:
        (record,) = send(server.url, [Ask(due_ms=200)], load=Load(kind="open", request_rate=1.0))
    assert record.failure is None
    assert record.reopened


def _stepping(monkeypatch: pytest.MonkeyPatch, step_s: float) -> None:
    """The wall clock is set by so much, a moment from now."""
    step_at = time.monotonic() + 0.15
    time_ns = time.time_ns

    def stepped() -> int:
        return time_ns() + int(step_s * 1e9) * (time.monotonic() > step_at)

    monkeypatch.setattr(time, "time_ns", stepped)


@pytest.mark.parametrize("step_s", [-3600.0, 3600.0])
def test_a_step_of_the_wall_clock_moves_no_request(
    monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    def serve(sock: socket.socket, number: int) -> None:
        while read_request(sock):
            sock.sendall(ANSWER)

    with scripted(serve) as server:
        _stepping(monkeypatch, step_s)
        asks = [Ask(due_ms=100 * index) for index in range(6)]
        began = time.monotonic()
        records = send(server.url, asks, load=Load(kind="open", request_rate=10.0))
    due_ms = [100 * index for index in range(6)]
    sent_ms = [(record.sent_ns or 0) / 1e6 for record in records]
    # Each is stamped by the clock as it stood then.
    gaps = [(sent - sent_ms[0] + 1e3) % 3600e3 - 1e3 for sent in sent_ms]
    assert gaps == pytest.approx(due_ms, abs=60)
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("step_s", [-3600.0, 3600.0])
def test_a_step_keeps_no_slot_from_connecting(
    monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    def serve(sock: socket.socket, number: int) -> None:
        read_request(sock)
        server.listener.shutdown(socket.SHUT_RDWR)
        sock.close()

    with scripted(serve) as server:
        _stepping(monkeypatch, step_s)
        began = time.monotonic()
        records = send(server.url, [Ask()] * 6)
    assert [record.failure and record.failure.kind for record in records][1:] == ["connect"] * 5
    assert 0.3 < time.monotonic() - began < 3
