"""The HTTP side of the instrument, fed bytes: every split, every way a response can end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_client.wire.exchange import Exchange

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENTS = [b'data: {"n": 0\r\n\r\n}\n\n', b"data: 0\r\n\r\n", b"data: [DONE]\n\n"]
MIB = 2**20


def chunked(parts: list[bytes], extension: bytes = b"", trailer: bytes = b"") -> bytes:
    chunks = b"".join(b"%x%s\r\n%s\r\n" % (len(part), extension, part) for part in parts)
    return chunks + b"0\r\n" + trailer + b"\r\n"


def fed(pieces: list[bytes], max_bytes: int = MIB) -> Exchange:
    exchange = Exchange(max_bytes)
    for at_ns, piece in enumerate(pieces, 100):
        if not exchange.done:
            exchange.take(at_ns, piece)
    return exchange


def body(exchange: Exchange) -> bytes:
    return b"".join(data for _, data in exchange.response.reads)


WHOLE = HEAD + chunked(EVENTS)


@pytest.mark.parametrize("cut", range(1, len(WHOLE)))
def test_every_split_gives_the_same_body_and_ends_at_the_last_byte(cut: int) -> None:
    exchange = Exchange(MIB)
    exchange.take(1, WHOLE[:cut])
    assert not exchange.done
    exchange.take(2, WHOLE[cut:])
    assert exchange.done
    assert exchange.response.clean_end
    assert exchange.response.fault is None
    assert exchange.response.status == 200
    assert exchange.response.done_ns == 2
    assert exchange.keep_alive
    assert body(exchange) == b"".join(EVENTS)


def test_a_stamp_belongs_to_the_bytes_that_came_with_it() -> None:
    first = HEAD + b"5\r\nhello\r\n"
    exchange = fed([first, b"6\r\n world\r\n", b"0\r\n\r\n"])
    assert exchange.response.reads == [(100, b"hello"), (101, b" world")]
    assert exchange.response.done_ns == 102


@pytest.mark.parametrize(
    "message",
    [
        HEAD + chunked(EVENTS, extension=b";name=value"),
        HEAD + chunked(EVENTS, trailer=b"X-Checksum: 1\r\n"),
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(b"".join(EVENTS)) + b"".join(EVENTS),
    ],
    ids=["chunk extension", "trailer", "content-length"],
)
def test_other_framings(message: bytes) -> None:
    exchange = fed([bytes([byte]) for byte in message])
    assert exchange.response.clean_end
    assert exchange.keep_alive
    assert body(exchange) == b"".join(EVENTS)


SHORT = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nContent-Type: text/plain\r\n\r\n"


@pytest.mark.parametrize("interim", [CONTINUE, HINTS, CONTINUE + HINTS + HINTS])
def test_interim_responses_are_skipped_however_they_are_cut(interim: bytes) -> None:
    message = interim + WHOLE
    for cut in range(1, len(message)):
        exchange = fed([message[:cut], message[cut:]])
        assert exchange.done
        assert exchange.response.fault is None
        assert exchange.response.status == 200
        assert exchange.response.headers == fed([WHOLE]).response.headers
        assert body(exchange) == b"".join(EVENTS)
        assert exchange.keep_alive


def test_an_interim_response_alone_is_no_answer() -> None:
    exchange = fed([CONTINUE])
    assert not exchange.done
    exchange.lost(7, None)
    assert exchange.response.fault is not None
    assert exchange.response.fault.kind == "truncated"
    assert exchange.response.status is None


@pytest.mark.parametrize("headers", [b"", b"Upgrade: x\r\nConnection: upgrade\r\n"])
def test_another_protocol_is_an_end(headers: bytes) -> None:
    exchange = fed([b"HTTP/1.1 101 Switching Protocols\r\n" + headers + b"\r\nwhatever"])
    assert exchange.done
    assert exchange.response.status == 101
    assert body(exchange) == b""
    assert not exchange.keep_alive


@pytest.mark.parametrize("surplus", [SHORT, HEAD, HEAD + chunked([b"x"]), CONTINUE, b"H", b"junk"])
def test_what_follows_an_answer_is_not_of_it_nor_of_the_next(surplus: bytes) -> None:
    exchange = fed([SHORT + surplus])
    assert exchange.done
    assert exchange.response.fault is None
    assert exchange.response.status == 200
    assert "content-type" not in exchange.response.headers
    assert body(exchange) == b"ab"
    assert not exchange.keep_alive


@pytest.mark.parametrize("value", [b"Chunked", b"CHUNKED", b"gzip, Chunked"])
def test_a_chunked_body_cut_short_is_truncated_however_it_is_spelt(value: bytes) -> None:
    exchange = fed([b"HTTP/1.1 200 OK\r\nTRANSFER-encoding: " + value + b"\r\n\r\n2\r\nab\r\n"])
    exchange.lost(7, None)
    assert exchange.response.fault is not None
    assert exchange.response.fault.kind == "truncated"


def test_a_trailer_is_no_header() -> None:
    exchange = fed([HEAD + chunked([b"x"], trailer=b"Content-Type: text/plain\r\n")])
    assert exchange.response.headers["content-type"] == "text/event-stream"


def test_http_1_0_ends_where_the_server_closes() -> None:
    exchange = fed([b"HTTP/1.0 200 OK\r\n\r\ndata: 1\n\n"])
    assert not exchange.done
    exchange.lost(7, None)
    assert exchange.response.clean_end
    assert exchange.response.fault is None
    assert not exchange.keep_alive


@pytest.mark.parametrize(
    ("sent", "error", "kind"),
    [
        (b"", None, "reset"),
        (b"", "Connection reset by peer", "reset"),
        (HEAD[:20], None, "truncated"),
        (HEAD + b"5\r\nhel", None, "truncated"),
        (HEAD + b"5\r\nhello\r\n", None, "truncated"),
        (HEAD + b"5\r\nhello\r\n", "Connection reset by peer", "reset"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", None, "truncated"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", None, "truncated"),
    ],
)
def test_a_connection_lost_early(sent: bytes, error: str | None, kind: str) -> None:
    exchange = Exchange(MIB)
    if sent:
        exchange.take(1, sent)
    exchange.lost(2, error)
    assert exchange.done
    assert exchange.response.fault is not None
    assert exchange.response.fault.kind == kind
    assert not exchange.response.clean_end
    assert not exchange.keep_alive


@pytest.mark.parametrize("sent", [b"SSH-2.0-OpenSSH\r\n", HEAD + b"zz\r\n", b"\x16\x03\x01\x02"])
def test_what_is_not_http_is_said_at_once(sent: bytes) -> None:
    exchange = fed([sent])
    assert exchange.response.fault is not None
    assert exchange.response.fault.kind == "bad_http"


def test_a_response_is_bounded_in_memory() -> None:
    big = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    exchange = fed([HEAD, *([big] * 40)], max_bytes=MIB)
    assert exchange.response.fault is not None
    assert exchange.response.fault.kind == "too_large"
    assert len(body(exchange)) <= MIB + 2 * 0x10000


def test_the_first_fault_stands() -> None:
    exchange = Exchange(MIB)
    exchange.fail("stall", "no answer", 1)
    exchange.fail("interrupted", "too late", 2)
    assert exchange.response.fault is not None
    assert exchange.response.fault.kind == "stall"
    assert exchange.response.done_ns == 1


def test_comments_that_keep_a_stream_alive_are_no_progress() -> None:
    exchange = fed([HEAD, b"9\r\ndata: 1\n\n\r\n"])
    assert exchange.progressed()
    exchange.take(200, b"8\r\n: ping\n\n\r\n")
    assert not exchange.progressed()


@given(st.binary(max_size=400), st.lists(st.integers(1, 40), max_size=30))
def test_no_bytes_raise(noise: bytes, sizes: list[int]) -> None:
    exchange = Exchange(MIB)
    exchange.take(1, HEAD)
    at = 0
    for size in sizes:
        if exchange.done:
            break
        exchange.take(2, noise[at : at + size])
        at += size
    if not exchange.done:
        exchange.lost(3, None)
    assert exchange.done
