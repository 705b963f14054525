"""A simulated server in a process of its own, and what a plain socket sees of it."""

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_client.wire.stamps import enable, recv_stamped
from tests.conftest import free_port

FAST = ("--step-ms=2", "--verify-ms=3", "--prefill-tok-s=1000000", "--answer-tokens=100:160")
QUESTION = "Explain how a server batches requests"


def chat(question: str = QUESTION, **fields: Any) -> dict[str, Any]:
    """A greedy streaming chat request of 20 tokens, unless `fields` say otherwise."""
    messages = [{"role": "user", "content": question}]
    return {"messages": messages, "stream": True, "temperature": 0, "max_tokens": 20} | fields


def http_request(path: str, body: dict[str, Any] | None, *headers: str) -> bytes:
    """The bytes of a request; POST if it has a body."""
    content = b"" if body is None else json.dumps(body).encode()
    method = "GET" if body is None else "POST"
    lines = [f"{method} {path} HTTP/1.1", "host: sim", f"content-length: {len(content)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + content


@dataclass(frozen=True)
class Seen:
    """Everything that came until the connection ended, and how it ended."""

    data: bytes
    end: str  # closed, reset, open (nothing more came)


@dataclass(frozen=True)
class Running:
    """A server that answers on `port`; `log` is its stdout."""

    port: int
    process: subprocess.Popen[bytes]
    log: Path

    def connect(self, timeout: float = 10.0) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def see(
        self,
        body: dict[str, Any] | None,
        path: str = "/v1/chat/completions",
        timeout: float = 10.0,
    ) -> Seen:
        """Send one request that asks to close, and read to the end."""
        with self.connect(timeout) as sock:
            sock.sendall(http_request(path, body, "connection: close"))
            return read_all(sock)

    def call(
        self, path: str, body: dict[str, Any] | None = None, method: str = "", **headers: str
    ) -> tuple[int, bytes]:
        """Status and body, by the standard library's client."""
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            content = None if body is None else json.dumps(body)
            conn.request(method or ("GET" if body is None else "POST"), path, content, headers)
            response = conn.getresponse()
            return response.status, response.read()
        finally:
            conn.close()

    def events(self, body: dict[str, Any], path: str = "/v1/chat/completions") -> list[Any]:
        """A stream's events, parsed; the last must be [DONE]."""
        status, content = self.call(path, body)
        assert status == 200, content
        assert content.endswith(b"data: [DONE]\n\n")
        return payloads(content)[:-1]

    def send_log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.call("/send_log")[1].splitlines()]

    def metrics(self) -> dict[str, float]:
        lines = self.call("/metrics")[1].decode().splitlines()
        pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
        return {name: float(value) for name, value in pairs}

    def wait_for(self, metric: str, value: float) -> None:
        """Wait until a metric has that value; fails after 10 s."""
        deadline = time.monotonic() + 10
        while self.metrics()[metric] != value:
            assert time.monotonic() < deadline, f"{metric} never was {value}"
            time.sleep(0.01)


def payloads(content: bytes) -> list[Any]:
    """The data of each event: JSON, or text where it is not."""
    found = []
    for event in content.split(b"\n\n")[:-1]:
        data = event.removeprefix(b"data: ")
        found.append(json.loads(data) if data.startswith(b"{") else data.decode())
    return found


def read_all(sock: socket.socket) -> Seen:
    """Read until the connection ends or the socket's timeout passes."""
    data = b""
    try:
        while piece := sock.recv(1 << 20):
            data += piece
    except ConnectionResetError:
        return Seen(data, "reset")
    except TimeoutError:
        return Seen(data, "open")
    return Seen(data, "closed")


def read_stamped(sock: socket.socket) -> list[tuple[int, bytes]]:
    """Read to the end with the kernel's receive stamps."""
    reads: list[tuple[int, bytes]] = []
    while True:
        stamp, data = recv_stamped(sock, 1 << 16)
        if not data:
            return reads
        reads.append((stamp, data))


def stamped_connection(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), 20)
    assert enable(sock) == "kernel"
    return sock


@contextmanager
def sim(folder: Path, *arguments: str) -> Iterator[Running]:
    """A running server, ready; stopped by SIGTERM in the end unless it is gone by then."""
    port = free_port()
    log = folder / f"sim-{port}.log"
    command = [sys.executable, "-m", "bench_client.sim", "--port", str(port), *arguments]
    with log.open("wb") as out, subprocess.Popen(command, stdout=out) as process:
        try:
            _wait_until_ready(process, log)
            yield Running(port, process, log)
        finally:
            process.terminate()
            process.wait(10)


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 20
    while b"fired up" not in log.read_bytes():
        assert process.poll() is None, "the server ended before it was ready"
        assert time.monotonic() < deadline, "the server never was ready"
        time.sleep(0.02)
