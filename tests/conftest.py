"""Real servers for tests: the embedded engine in a process of its own."""

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

StartSim = Callable[..., str]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@pytest.fixture
def start_sim() -> Iterator[StartSim]:
    """Starts engines with the given arguments and returns each one's root URL."""
    running: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> str:
        port = free_port()
        command = [sys.executable, "-m", "bench_client.sim", "--port", str(port), *arguments]
        running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                httpx.get(f"{url}/health", trust_env=False)
            except httpx.TransportError:
                time.sleep(0.05)
            else:
                return url
        raise AssertionError("the embedded engine did not start")

    yield start
    for process in running:
        process.kill()
        process.wait()
