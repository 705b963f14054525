"""A server that says exactly what a test wrote, on real sockets, and keeps what it was sent."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

Serve = Callable[[socket.socket, int], None]
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n'
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
ANSWER = HEAD + b"content-length: %d\r\n\r\n" % len(EVENT) + EVENT


@dataclass
class Scripted:
    """`serve(sock, n)` has the n-th connection, in a thread of its own."""

    serve: Serve
    listener: socket.socket
    connections: list[socket.socket] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                number = len(self.connections)
                self.connections.append(sock)
                threading.Thread(target=self._one, args=(sock, number), daemon=True).start()

    def _one(self, sock: socket.socket, number: int) -> None:
        with suppress(OSError):
            self.serve(sock, number)


@contextmanager
def scripted(serve: Serve) -> Iterator[Scripted]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Scripted(serve, listener)
        accepting = threading.Thread(target=server.accept, daemon=True)
        accepting.start()
        yield server
        with suppress(OSError):  # a test may have done so
            listener.shutdown(socket.SHUT_RDWR)
        accepting.join(5)
    for sock in server.connections:
        sock.close()


def read_request(sock: socket.socket) -> bytes:
    """One whole request; empty where the client closed."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(65536)
        if not piece:
            return b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += sock.recv(65536)
    return head + b"\r\n\r\n" + body
