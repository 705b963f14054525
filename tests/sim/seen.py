"""Judging bytes: strict, and independent of the client's parsers."""

from .running import Running, Seen, chat

PLAIN_END = b"data: [DONE]\n\n\r\n0\r\n\r\n"


def see(running: Running, fault: str, timeout: float = 10.0) -> Seen:
    return running.see(chat(sim_fault=fault), timeout=timeout)


def head_and_body(seen: Seen) -> tuple[bytes, bytes]:
    head, _, body = seen.data.partition(b"\r\n\r\n")
    return head, body


def unchunked(body: bytes) -> bytes:
    """Decode HTTP chunks, strictly, up to the terminal one."""
    pieces: list[bytes] = []
    at = 0
    while True:
        start = body.index(b"\r\n", at) + 2
        length = int(body[at : start - 2].partition(b";")[0], 16)
        at = start + length + 2
        if not length:
            assert body.endswith(b"\r\n")
            return b"".join(pieces)
        assert body[at - 2 : at] == b"\r\n"
        pieces.append(body[start : at - 2])


def tokens_in(data: bytes) -> int:
    """Token-bearing events (one token each on this server)."""
    return data.count(b'"content":" ') + data.count(b'"content":","') + data.count(b'"content":"."')
