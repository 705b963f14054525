"""What a limit on requests does to a run, and that the run says so."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tests.cli.helpers import bench_client, folder, load, prompts, records
from tests.conftest import StartSim

RETRY_AFTER_S = 0.2


class _Busy(BaseHTTPRequestHandler):
    """Passes everything on to `target`, and every second question not."""

    protocol_version = "HTTP/1.1"
    target = ""
    asked = 0

    def do_GET(self) -> None:
        self._answer(httpx.get(f"{self.target}{self.path}", trust_env=False))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        question = self.path.startswith("/v1/")
        type(self).asked += question
        if question and self.asked % 2:
            self.send_response(429)
            self.send_header("retry-after", str(RETRY_AFTER_S))
            self.send_header("content-length", "0")
            self.end_headers()
        else:
            url = f"{self.target}{self.path}"
            self._answer(httpx.post(url, content=body, trust_env=False, timeout=10))

    def _answer(self, found: httpx.Response) -> None:
        self.send_response(found.status_code)
        self.send_header("content-type", found.headers.get("content-type", ""))
        self.send_header("content-length", str(len(found.content)))
        self.end_headers()
        self.wfile.write(found.content)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def busy(start_sim: StartSim) -> Iterator[str]:
    """A server that refuses each request once."""
    handler = type("Busy", (_Busy,), {"target": start_sim("--fixed", "5:5")})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_429_that_was_waited_for_is_counted_and_told(tmp_path: Path, busy: str) -> None:
    done = bench_client(
        *("--url", busy, "--retry-429", "--max-tokens", 4, "--ignore-eos", "--warmup", 0),
        *("--scenario", prompts(tmp_path / "p.jsonl", 4), "--results", tmp_path / "r"),
        "--no-calibrate",
    )
    assert done.returncode == 0, done.stderr
    path = folder(tmp_path / "r")
    summary = load(path / "summary.json")
    counted = {"ok": 4, "failed": 0, "failures": {}, "rate_limited": 4}
    assert summary["requests"] == counted
    assert summary["verdict"] == "doubtful"
    (doubt,) = (each for each in summary["doubts"] if each["code"] == "rate_limited")
    assert "answered 429 4 times to 4 of 4 requests" in doubt["message"]
    # The wait is queue time; what is measured begins with the last sending.
    assert summary["queue_ms"]["min"] >= RETRY_AFTER_S * 1e3
    assert summary["e2e_ms"]["max"] < RETRY_AFTER_S * 1e3
    for record in records(path):
        assert record["rate_limited"] == 1
    for report in (
        done.stdout,
        (path / "report.md").read_text(),
        (path / "report.html").read_text(),
    ):
        assert "4 answers of 429 waited for" in report
    assert [line for line in done.stdout.splitlines() if line.startswith("queue")]


def test_a_rate_limit_is_part_of_the_load(tmp_path: Path, start_sim: StartSim) -> None:
    done = bench_client(
        *("--url", start_sim("--fixed", "5:5"), "--rate-limit", "3/s", "--concurrency", 6),
        *("--scenario", prompts(tmp_path / "p.jsonl", 6), "--results", tmp_path / "r"),
        *("--max-tokens", 4, "--ignore-eos", "--warmup", 0, "--no-calibrate"),
    )
    assert done.returncode == 0, done.stderr
    path = folder(tmp_path / "r")
    assert load(path / "run.json")["plan"]["load"]["rate_limit"] == "3/s"
    assert "closed loop, concurrency 6, held to 3/s" in done.stdout
    assert [line for line in done.stdout.splitlines() if line.startswith("queue")]


def test_without_a_limit_there_is_no_word_of_one(tmp_path: Path, start_sim: StartSim) -> None:
    done = bench_client(
        *("--url", start_sim("--fixed", "20:10"), "--max-tokens", 20, "--ignore-eos"),
        *("--scenario", prompts(tmp_path / "p.jsonl", 3), "--results", tmp_path / "r"),
        *("--warmup", 1, "--no-calibrate"),
    )
    assert done.returncode == 0, done.stderr
    assert load(folder(tmp_path / "r") / "run.json")["plan"]["load"]["rate_limit"] is None
    assert "held to" not in done.stdout
    assert "429" not in done.stdout
    assert not [line for line in done.stdout.splitlines() if line.startswith("queue")]
