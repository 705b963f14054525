"""The wire and what applications use see the same answers and the same failures."""

import asyncio
import dataclasses
import socket
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvloop

from bench_client.records import Api
from bench_client.run.transports import Kind, make_transport
from bench_client.wire.raw import RawResponse
from bench_client.wire.response import read_response
from bench_client.wire.stream import StreamResult
from bench_client.wire.transport import Limits
from tests.cli.helpers import bench_client, folder, load, prompts, records
from tests.conftest import free_port
from tests.run.scripted import scripted
from tests.sim.running import Running, sim
from tests.wire.exchanging import KINDS, Answer, ask, exchange, spec

APPLICATIONS: tuple[Kind, ...] = ("httpx", "openai")
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
STALL_S = 0.4


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with sim(tmp_path_factory.mktemp("engine"), "--fixed", "15:4") as running:
        yield running


@pytest.fixture(scope="module")
def url(engine: Running) -> str:
    return f"http://127.0.0.1:{engine.port}"


def seen(answer: Answer) -> dict[str, Any]:
    """Everything of an answer that is not an instant."""
    result = answer.result
    return {
        "status": answer.raw.status,
        "text": result.text,
        "token_ids": result.token_ids,
        "tokens": result.events.tokens,
        "output_tokens": result.output_tokens,
        "input_tokens": result.input_tokens,
        "source": result.token_count_source,
        "finish_reason": result.finish_reason,
        "failure": answer.kind,
    }


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_the_same_answer(url: str, api: Api) -> None:
    answers = {kind: exchange(spec(url, kind), ask(kind, api=api)) for kind in KINDS}
    wire = answers["wire"]
    assert wire.kind is None
    assert wire.result.output_tokens == len(wire.result.token_ids or ()) == 12
    assert wire.result.finish_reason == "length"
    assert wire.raw.stamps == "kernel"
    for kind in APPLICATIONS:
        assert seen(answers[kind]) == seen(wire)
        assert answers[kind].raw.stamps == "user"
        assert answers[kind].raw.clean_end


@pytest.mark.parametrize(
    ("fault", "kind", "tokens"),
    [
        ("refuse", "reset", 0),
        ("reset_before", "reset", 0),
        ("reset_after:3", "reset", 3),
        ("truncated_chunk:3", "truncated", 3),
        ("truncated_stream:3", "truncated", 3),
        ("no_end:3", "no_finish", 3),
        ("never_answers", "stall", 0),
        ("stall:3", "stall", 3),
        ("error_before", "error_event", 0),
        ("error_after:3", "error_event", 3),
        ("error_string:3", "error_event", 3),
        ("abort:3", "abort", 3),
        ("http:429", "http_429", 0),
        ("http:500:html", "http_500", 0),
        ("not_a_stream", "not_a_stream", 0),
        ("html_200", "not_a_stream", 0),
        *((shape, None, 12) for shape in ("http10", "content_length", "crlf", "no_done")),
    ],
)
def test_the_same_failure(url: str, fault: str, kind: str | None, tokens: int) -> None:
    messages = set()
    for each in KINDS:
        through = spec(url, each, stall_s=STALL_S if kind == "stall" else 10.0)
        answer = exchange(through, ask(each, sim_fault=fault))
        assert answer.kind == kind, f"{each}: {answer.message}"
        assert sum(filter(None, answer.result.events.tokens)) == tokens, each
        assert "\n" not in answer.message
        messages.add(answer.message)
    if kind in {"stall", "error_event", "http_429"}:
        assert len(messages) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_listens(kind: Kind) -> None:
    through = spec(f"http://127.0.0.1:{free_port()}", kind)
    with pytest.raises(OSError, match=r".") as raised:
        exchange(through, ask())
    assert "\n" not in str(raised.value)
    answer = exchange(through, ask(), connect=False)
    assert answer.kind == "connect"
    assert answer.message.startswith("cannot connect: ")


@pytest.mark.parametrize("kind", KINDS)
def test_an_interruption_keeps_what_came(url: str, kind: Kind) -> None:
    began = time.monotonic()
    asked = ask(tokens=2000)
    answer = exchange(spec(url, kind), asked, interrupt_after_s=0.3)
    assert answer.kind == "interrupted"
    assert 0 < sum(filter(None, answer.result.events.tokens)) < 2000
    assert answer.raw.done_ns is not None
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("kind", APPLICATIONS)
def test_a_callers_own_cancellation_is_not_taken_for_an_interruption(url: str, kind: Kind) -> None:
    async def run() -> None:
        transport = make_transport(spec(url, kind))
        try:
            async with asyncio.timeout(0.2):
                await transport.exchange(ask(tokens=2000))
        finally:
            await transport.close()

    with pytest.raises(TimeoutError):
        uvloop.run(run())


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_is_bounded_in_memory(url: str, kind: Kind) -> None:
    through = spec(url, kind, limits=Limits(max_bytes=2**20))
    answer = exchange(through, ask(sim_fault="big_event"))
    assert answer.kind == "too_large"
    assert "1 MiB" in answer.message


@asynccontextmanager
async def saying(pieces: list[bytes], pause_s: float) -> AsyncIterator[str]:
    """A server that sends these bytes, whatever it is asked, and closes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await reader.readuntil(b"\r\n\r\n")
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(pause_s)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield f"http://127.0.0.1:{port}"
        await asyncio.sleep(0.2)  # it sees that the client is gone


def told(kind: Kind, pieces: list[bytes], stall_s: float = STALL_S) -> StreamResult:
    """What a transport makes of a server that says these pieces."""

    async def run() -> RawResponse:
        async with saying(pieces, 0.03) as url:
            transport = make_transport(spec(url, kind, stall_s=stall_s))
            if kind == "wire":  # the others would ask for the models
                await transport.open(1)
            try:
                return await transport.exchange(ask())
            finally:
                await transport.close()

    return read_response(uvloop.run(run()), "chat")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("pieces", "failure"),
    [
        ([b"SSH-2.0-OpenSSH_9.6\r\n\r\n"], "bad_http"),
        ([STREAM, b"zz\r\n"], "bad_http"),
        ([STREAM, chunk(EVENT), chunk(b"data: {nonsense\n\n"), b"0\r\n\r\n"], "bad_event"),
        ([STREAM, chunk(EVENT), *[chunk(b": ping\n\n")] * 30], "stall"),
        ([STREAM, chunk(EVENT), *[chunk(b": data keepalive\n\n")] * 30], "stall"),
    ],
    ids=["not http", "bad chunk", "bad event", "only comments", "data in comments"],
)
def test_a_broken_server(kind: Kind, pieces: list[bytes], failure: str) -> None:
    answer = told(kind, pieces, stall_s=STALL_S if failure == "stall" else 10.0)
    assert answer.failure is not None
    assert answer.failure.kind == failure, answer.failure.message


@pytest.mark.parametrize("kind", ["wire", "httpx"])  # the SDK takes it for an event
@pytest.mark.parametrize(
    "beat", [[b"data: \n\n"], [b"da", b"ta: ", b"\n", b"\n"], [b"data:\r\n\r\n"]]
)
def test_events_of_empty_data_do_not_keep_an_answer_going(kind: Kind, beat: list[bytes]) -> None:
    answer = told(kind, [STREAM, chunk(EVENT), *map(chunk, beat * 30)])
    assert answer.failure is not None
    assert answer.failure.kind == "stall"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("content_type", "body", "said"),
    [
        (b"application/json", b'{"choices": [], "id": "77"}', "77"),
        (b"text/html", b"<h1>Log in</h1>", "Log in"),
    ],
)
def test_what_came_in_place_of_a_stream_is_quoted(
    kind: Kind, content_type: bytes, body: bytes, said: str
) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n"
    answer = told(kind, [head % (content_type, len(body)) + body])
    assert answer.failure is not None
    assert answer.failure.kind == "not_a_stream"
    assert said in answer.failure.message
    assert "DONE" not in answer.failure.message


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_does_not_end_is_cut_off(url: str, kind: Kind) -> None:
    asked = dataclasses.replace(ask(sim_fault="endless"), max_events=60)
    began = time.monotonic()
    answer = exchange(spec(url, kind, stall_s=1.0), asked)
    assert answer.kind == "too_long"
    assert "60 events" in answer.message
    assert time.monotonic() - began < 5
    within = exchange(spec(url, kind), dataclasses.replace(ask(), max_events=60))
    assert within.kind is None


def test_a_run_bounds_every_answer(tmp_path: Path) -> None:
    with sim(tmp_path, "--fixed", "1:0.5") as running:
        done = bench_client(
            *("--url", f"http://127.0.0.1:{running.port}", "--max-tokens", 4),
            *("--extra-body", '{"sim_fault": "endless"}', "--no-calibrate", "--warmup", 0),
            *("--scenario", prompts(tmp_path / "p.jsonl", 1), "--results", tmp_path / "r"),
        )
    (kept,) = records(folder(tmp_path / "r"))
    assert kept["failure"]["kind"] == "too_long"
    assert "1040 events" in kept["failure"]["message"]
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("Host: elsewhere", "Host cannot be set"),
        ("content-length: 5", "content-length cannot be set"),
        ("Transfer-Encoding: chunked", "Transfer-Encoding cannot be set"),
        ("Content-Type: text/plain", "Content-Type cannot be set"),
        ("Bad Name: x", "'Name: value'"),
        ("X-Name: grün", "ASCII"),
    ],
)
def test_headers_that_no_request_can_have(tmp_path: Path, url: str, header: str, said: str) -> None:
    done = bench_client("--url", url, "--header", header, "--results", tmp_path / "r")
    assert done.returncode == 2
    last = done.stderr.strip().split("\n")[-1]
    assert "--header" in last
    assert said in last
    assert not (tmp_path / "r").exists()


def test_a_redirect_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    def redirect(sock: socket.socket, number: int) -> None:
        sock.recv(65536)
        sock.sendall(b"HTTP/1.1 307 T\r\nlocation: http://x/v1/models\r\ncontent-length: 0\r\n\r\n")
        sock.close()

    with scripted(redirect) as server:
        done = bench_client("--url", server.url, "--results", tmp_path / "r")
    assert done.returncode == 1
    assert "redirects to http://x/v1/models: give the root there as --url" in done.stderr


def test_httpx_is_stamped_below_httpx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the application spends between a read and its bytes does not show in the stamps."""
    delay_s = 0.025
    whole = httpx.Response.aiter_bytes

    async def late(response: httpx.Response) -> AsyncIterator[bytes]:
        async for data in whole(response):
            time.sleep(delay_s)  # noqa: ASYNC251 (work on each piece)
            yield data

    monkeypatch.setattr(httpx.Response, "aiter_bytes", late)
    with sim(tmp_path, "--fixed", "60:60") as running:
        through = spec(f"http://127.0.0.1:{running.port}", "httpx")
        answer = exchange(through, ask(tokens=15))
        (sent,) = running.send_log()
    assert answer.kind is None
    pairs = zip(answer.result.events.at_ns, sent["events"], strict=True)
    late_ms = statistics.median((mine - at_ns) / 1e6 for mine, (at_ns, _) in pairs)
    assert 0 < late_ms < delay_s * 1e3 / 2


@pytest.mark.parametrize("kind", APPLICATIONS)
def test_a_run_says_that_it_is_not_the_instrument(tmp_path: Path, url: str, kind: Kind) -> None:
    bench_client(
        *("--url", url, "--transport", kind, "--max-tokens", 8, "--ignore-eos"),
        *("--scenario", prompts(tmp_path / "p.jsonl", 5), "--results", tmp_path / "r"),
        "--no-calibrate",
    )
    path = folder(tmp_path / "r")
    assert load(path / "run.json")["client"]["transport"] == kind
    kept = records(path)
    assert [(record["outcome"], record["stamps"]) for record in kept] == [("ok", "user")] * 5
    doubts = {doubt["code"]: doubt for doubt in load(path / "summary.json")["doubts"]}
    assert doubts["not_the_instrument"]["severity"] == "note"
    assert f"--transport {kind}" in doubts["not_the_instrument"]["message"]
    assert doubts["not_the_instrument"]["message"] in (path / "report.md").read_text()


def test_the_sdk_has_no_generate(tmp_path: Path, url: str) -> None:
    done = bench_client(
        *("--url", url, "--transport", "openai", "--api", "generate"),
        *("--results", tmp_path / "r"),
    )
    assert done.returncode == 2
    assert "has no --api generate" in done.stderr


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("zone", ["", "%251"])  # the zone by its number, as ::1 has no name for it
def test_ipv6_literal(tmp_path: Path, kind: Kind, zone: str) -> None:
    with sim(tmp_path, "--fixed", "5:2", "--host", "::1") as running:
        answer = exchange(spec(f"http://[::1{zone}]:{running.port}", kind), ask())
    assert answer.kind is None, answer.message
    assert answer.result.output_tokens == 12
    assert answer.raw.stamps == ("kernel" if kind == "wire" else "user")
