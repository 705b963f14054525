"""The truth server, built and run for one client at a time, and what it sent."""

import http.client
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

TTFT_MS = 50
ITL_MS = 20


@dataclass(frozen=True)
class Sent:
    """One request as the server saw it: instants in ns, CLOCK_REALTIME."""

    id: str
    received_ns: int
    sent_ns: np.ndarray

    @property
    def ttft_ns(self) -> int:
        """From the kernel's receive stamp to just before the send call."""
        return int(self.sent_ns[0]) - self.received_ns


@dataclass(frozen=True)
class TruthServer:
    """A server that is up."""

    port: int

    @property
    def url(self) -> str:
        """Its root."""
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str) -> bytes:
        """One page of it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path)
            return connection.getresponse().read()
        finally:
            connection.close()

    def sent(self, last: int) -> list[Sent]:
        """The `last` requests, without those before: warm-ups and checks."""
        lines = [json.loads(line) for line in self.get("/send_log").splitlines()]
        found = [
            Sent(line["id"], line["received_ns"], np.array([at for at, _ in line["events"]]))
            for line in lines
            if line["events"]
        ]
        return sorted(found, key=lambda request: request.received_ns)[-last:]


def build(folder: Path) -> Path:
    """Compile it. SystemExit where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise SystemExit("the truth server needs a C compiler: install gcc")
    source = Path(__file__).with_name("truth_server.c")
    program = folder / "truth_server"
    warnings = ["-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, "-std=c11", "-O2", *warnings, "-o", program, source], check=True)
    return program


@contextmanager
def serving(program: Path, port: int, core: int) -> Iterator[TruthServer]:
    """Run it on one core."""
    timing = [str(TTFT_MS), str(ITL_MS)]
    process = subprocess.Popen(["taskset", "-c", str(core), program, str(port), *timing])
    server = TruthServer(port)
    try:
        _wait_ready(process, server)
        yield server
    finally:
        process.kill()
        process.wait()


def _wait_ready(process: subprocess.Popen[bytes], server: TruthServer) -> None:
    for _ in range(200):
        if process.poll() is not None:
            raise SystemExit(f"the truth server ended; is port {server.port} taken? See --port")
        try:
            server.get("/health")
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit("the truth server did not answer within 10 s")
