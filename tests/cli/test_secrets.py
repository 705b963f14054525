"""Keys are in nothing that is kept or shown, not even where a server quotes them."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bench_client.run.secrets import redacted_json, scrubbed
from tests.cli.helpers import bench_client, folder, load, one_line, prompts, records
from tests.conftest import StartSim, free_port

KEY = "sk-9f8e7d6c5b4a"
OTHER = "tenant-4711-x"


class Quoting(BaseHTTPRequestHandler):
    """Lists its model, and refuses each request with the headers that came with it."""

    models = 200
    padding = ""

    def do_GET(self) -> None:
        listed = {"data": [{"id": "m"}]} if self.path == "/v1/models" else {}
        self._answer(self.models if listed else 404, listed)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        quoted = f"{self.headers['Authorization']} of {self.headers['X-Tenant']}"
        message = f"{self.padding}not accepted: {quoted}"
        self._answer(401, {"error": {"message": message}})

    def _answer(self, status: int, said: object) -> None:
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def quoting(request: pytest.FixtureRequest) -> Iterator[str]:
    kind = type("Handler", (Quoting,), {"padding": getattr(request, "param", "")})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def written(path: Path) -> str:
    return "".join(each.read_text() for each in path.rglob("*") if each.is_file())


# The second message is cut after 300 characters, in the middle of the key.
@pytest.mark.parametrize("quoting", ["", "x" * 269], indirect=True, ids=["whole", "cut"])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_key_that_the_server_quotes(quoting: str, workers: int, tmp_path: Path) -> None:
    done = bench_client(
        *("--url", quoting, "--api-key-env", "BENCH_KEY", "--header", f"X-Tenant: {OTHER}"),
        *("--concurrency", 2, "--workers", workers, "--no-calibrate"),
        *("--scenario", prompts(tmp_path / "p.jsonl"), "--results", tmp_path / "r"),
        BENCH_KEY=KEY,
    )
    assert done.returncode == 1
    kept = records(folder(tmp_path / "r"))
    assert len(kept) == 2
    for record in kept:
        assert record["failure"]["kind"] == "http_401"
        assert "not accepted: " in record["failure"]["message"]
        assert "***" in record["failure"]["message"]
    note = load(folder(tmp_path / "r") / "run.json")["note"]
    assert "warm-up failed: http_401" in note
    for text in (written(tmp_path / "r"), done.stdout + done.stderr):
        assert "not accepted" in text
        assert KEY[:6] not in text
        assert OTHER not in text


def test_messages_that_end_inside_a_key() -> None:
    assert scrubbed("no: sk-9f…; no: sk-9f8e7d…", [KEY]) == "no: ***…; no: ***…"
    assert scrubbed(f"no: {KEY}, {KEY}", [KEY]) == "no: ***, ***"
    assert scrubbed("sk-9f is not cut off", [KEY]) == "sk-9f is not cut off"
    assert scrubbed("port 80", ["80"]) == "port 80"
    assert scrubbed("Bearer abcd", ["abcd", "Bearer abcd"]) == "***"


@pytest.mark.parametrize("key", ["ab\r\nEvil: 1", "clé-1234", "ab\tcd"])
def test_a_key_that_no_header_can_carry(key: str, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    done = bench_client("--url", url, "--api-key-env", "K", "--results", tmp_path / "r", K=key)
    assert done.returncode == 2
    assert "--api-key-env K" in done.stderr
    assert "printable ASCII" in done.stderr
    assert key[:3] not in done.stderr.replace("--api-key-env", "")
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("header", [f"Authorization {KEY}", f"X: {KEY}\nEvil: 1", f"X: {KEY}é"])
def test_a_header_that_is_none_is_not_repeated(header: str, tmp_path: Path) -> None:
    done = bench_client("--server", "sim", "--header", header, "--results", tmp_path)
    assert done.returncode == 2
    assert "Name: value" in done.stderr
    assert KEY not in done.stderr


@pytest.mark.parametrize("form", ["--extra-body={}", "--extra-body {}"])
def test_a_key_in_the_extra_body(form: str, tmp_path: Path, start_sim: StartSim) -> None:
    body = json.dumps({"api_key": KEY, "user": "me", "auth": [{"hfToken": OTHER}]})
    done = bench_client(
        *("--url", start_sim("--fixed", "5:1"), *(each.format(body) for each in form.split(" "))),
        *("--scenario", prompts(tmp_path / "p.jsonl"), "--max-tokens", 3, "--no-calibrate"),
        *("--results", tmp_path / "r"),
    )
    assert done.returncode == 0, done.stderr
    header = load(folder(tmp_path / "r") / "run.json")
    kept = {"api_key": "***", "user": "me", "auth": "***"}
    assert header["plan"]["sampling"]["extra_body"] == kept
    (argument,) = [each for each in header["argv"] if "api_key" in each]
    assert json.loads(argument.removeprefix("--extra-body=")) == kept
    for secret in (KEY, OTHER):
        assert secret not in written(tmp_path / "r") + done.stdout + done.stderr


def test_which_names_hold_secrets() -> None:
    hidden = {"api_key", "apiKey", "X-Api-Key", "token", "access_token", "Authorization"}
    hidden |= {"password", "client_secret", "secretKey", "Cookie", "credentials"}
    shown = {"max_tokens", "stop_token_ids", "return_token_ids", "tokenizer", "user", "key_points"}
    given = dict.fromkeys(sorted(hidden | shown), "value")
    redacted = redacted_json({"inner": [given], "token": None, "secret": False})
    assert redacted["token"] is None
    assert redacted["secret"] is False
    (inner,) = redacted["inner"]
    assert {name for name, value in inner.items() if value == "***"} == hidden


def test_a_launched_server_that_wants_a_key(tmp_path: Path) -> None:
    locked = ("--server", "sim", "--launch-arg=--fixed", "--launch-arg=5:1")
    locked += (f"--launch-arg=--api-key={KEY}", "--scenario", str(prompts(tmp_path / "p.jsonl")))
    rest = ("--max-tokens", 3, "--no-calibrate", "--port", free_port(), "--results", tmp_path / "r")
    refused = bench_client(*locked, *rest, timeout=20)
    assert refused.returncode == 1
    assert "--api-key-env" in one_line(refused)
    done = bench_client(*locked, *rest, "--api-key-env", "K", K=KEY)
    assert done.returncode == 0, done.stderr
    assert KEY not in written(tmp_path / "r") + done.stdout + done.stderr + refused.stderr
