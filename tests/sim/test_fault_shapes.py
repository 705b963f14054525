"""Answers that are right but come in an awkward shape."""

import socket
import struct
import time

from .running import Running, chat, http_request, payloads, read_all
from .seen import PLAIN_END, head_and_body, see, tokens_in, unchunked


def test_big_event(plain: Running) -> None:
    body = unchunked(head_and_body(see(plain, "big_event"))[1])
    sizes = [len(event) for event in body.split(b"\n\n")]
    assert [size > 2_000_000 for size in sizes] == [False, True] + [False] * (len(sizes) - 2)
    assert len(payloads(body)) == 22
    asked = {"text": "hi", "stream": True, "sim_fault": "big_event"}
    body = unchunked(head_and_body(plain.see(asked, "/generate"))[1])
    assert len(payloads(body)[0]["text"]) > 2_000_000


def test_many_events(plain: Running) -> None:
    body = unchunked(head_and_body(see(plain, "many_events"))[1])
    assert tokens_in(body) == 20_000
    assert body.endswith(b"data: [DONE]\n\n")
    (entry,) = plain.send_log()[-1:]
    assert len({sent for sent, _ in entry["events"]}) == 1
    assert plain.metrics()['sglang:num_running_reqs{model_name="sim"}'] == 0


def test_close_idle(plain: Running) -> None:
    with plain.connect() as sock:
        sock.sendall(http_request("/v1/chat/completions", chat(sim_fault="close_idle")))
        started = time.monotonic()
        seen = read_all(sock)
    assert (seen.end, seen.data[-len(PLAIN_END) :]) == ("closed", PLAIN_END)
    assert time.monotonic() - started > 0.05


def test_http10(plain: Running) -> None:
    with plain.connect() as sock:
        sock.sendall(http_request("/v1/chat/completions", chat(sim_fault="http10")))
        seen = read_all(sock)
    head, body = head_and_body(seen)
    assert seen.end == "closed"
    assert head.startswith(b"HTTP/1.0 200 OK\r\n")
    assert b"transfer-encoding" not in head
    assert body.startswith(b"data: {")
    assert body.endswith(b"data: [DONE]\n\n")


def test_content_length(plain: Running) -> None:
    head, body = head_and_body(see(plain, "content_length"))
    assert b"\r\ncontent-length: %d\r\n" % len(body) in head + b"\r\n"
    assert tokens_in(body) == 20
    assert body.endswith(b"data: [DONE]\n\n")
    assert len({sent for sent, _ in plain.send_log()[-1]["events"]}) == 1


def test_chunk_extensions_and_trailers(plain: Running) -> None:
    body = head_and_body(see(plain, "chunk_extensions"))[1]
    assert body.count(b';sim="yes"\r\n') == 22  # role, 20 tokens, [DONE]
    assert tokens_in(unchunked(body)) == 20
    head, body = head_and_body(see(plain, "trailers"))
    assert b"\r\ntrailer: x-sim" in head
    assert body.endswith(b"\r\n0\r\nx-sim: done\r\n\r\n")


def data_segments(sock: socket.socket) -> int:
    """tcpi_data_segs_in of Linux's struct tcp_info."""
    return int(struct.unpack_from("@I", sock.getsockopt(socket.IPPROTO_TCP, 11, 192), 152)[0])


def test_one_byte(plain: Running) -> None:
    segments = {}
    for fault in ("one_byte", None):
        asked = chat(sim_fault=fault, max_tokens=3)
        with plain.connect() as sock:
            raw = http_request("/v1/chat/completions", asked, "connection: close")
            sock.sendall(raw)
            seen = read_all(sock)
            segments[fault] = data_segments(sock)
        assert tokens_in(seen.data) == 3
    assert segments[None] < 10
    assert segments["one_byte"] > 2 * segments[None]  # TCP joins what it cannot send at once


def test_slow_headers(plain: Running) -> None:
    with plain.connect() as sock:
        sock.sendall(http_request("/v1/chat/completions", chat(sim_fault="slow_headers")))
        reads: list[bytes] = []
        while b"\r\n\r\n" not in b"".join(reads):
            reads.append(sock.recv(4096))
        assert len(reads) >= 3
        while not reads[-1].endswith(b"0\r\n\r\n"):
            reads.append(sock.recv(4096))
    assert tokens_in(b"".join(reads)) == 20


def test_no_done(plain: Running) -> None:
    body = unchunked(head_and_body(see(plain, "no_done"))[1])
    assert payloads(body)[-1]["choices"][0]["finish_reason"] == "length"


def test_crlf_comments_and_nospace(plain: Running) -> None:
    body = unchunked(head_and_body(see(plain, "crlf"))[1])
    assert body.count(b"\r\n\r\n") == body.count(b"\n") / 2 == 22
    body = unchunked(head_and_body(see(plain, "comments"))[1])
    assert body.count(b": keep-alive\n\n") == 22
    assert tokens_in(body) == 20
    body = unchunked(head_and_body(see(plain, "nospace"))[1])
    assert b"data: " not in body
    assert body.count(b"data:{") == 21
    assert body.endswith(b"data:[DONE]\n\n")
