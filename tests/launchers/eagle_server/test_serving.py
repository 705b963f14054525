"""Connections that come, wait, break off or ask for what cannot be done."""

import asyncio
import itertools
import socket
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from bench_client.records import Failure
from bench_client.run.server_facts import ControlPlane
from bench_client.wire.endpoint import parse_endpoint
from bench_client.wire.payload import PATHS
from bench_client.wire.transport import OutgoingRequest
from server_launchers.eagle_server.serving import Server
from server_launchers.facts import from_sglang_info

from .asking import ask, exchange, planned
from .conftest import Start
from .double import EaModel

TEXT = "verify 海水 and go on"  # 23 bytes, so 23 tokens


def test_two_requests_at_once_are_answered_one_after_the_other(start: Start) -> None:
    ea = EaModel(TEXT)
    url = start(ea)
    first, second = asyncio.run(exchange(url, planned("first"), planned("second")))
    assert first.text == second.text == TEXT
    spans = sorted((each.events.at_ns[0], each.events.at_ns[-1]) for each in (first, second))
    assert spans[0][1] <= spans[1][0]
    assert ea.closed == 2


class Gate:
    """Lets the double take one step at a time."""

    def __init__(self) -> None:
        self._steps = threading.Semaphore(0)
        self.waiting = threading.Semaphore(0)

    def __call__(self, step: int) -> None:
        self.waiting.release()
        assert self._steps.acquire(timeout=20), f"step {step} was never let go"

    def let(self, steps: int) -> None:
        self._steps.release(steps)

    def reached(self) -> None:
        assert self.waiting.acquire(timeout=5), "no step was begun"


def connected(url: str, request: OutgoingRequest) -> socket.socket:
    """A connection on which a request has been sent."""
    host, _, port = url.removeprefix("http://").partition(":")
    sock = socket.create_connection((host, int(port)), timeout=5)
    head = f"POST {request.path} HTTP/1.1\r\nHost: m\r\nContent-Length: {len(request.body)}\r\n\r\n"
    sock.sendall(head.encode() + request.body)
    return sock


def wait_until(true: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(500):
        if true():
            return
        pause.wait(0.01)
    raise AssertionError("it never came to be")


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_ends_the_generation_within_a_step(start: Start, stream: bool) -> None:
    gate = Gate()
    ea = EaModel(TEXT * 9, pause=gate)
    url = start(ea)
    request = planned(extra_body={"stream": stream})
    with connected(url, request):
        gate.let(2)
        for _ in range(3):
            gate.reached()  # two steps are done, the third is under way
    gate.let(1)
    wait_until(lambda: ea.closed == 1)
    assert ea.steps == 3
    assert not gate.waiting.acquire(blocking=False), "a fourth step was begun"
    gate.let(100)
    assert ask(url, max_tokens=5).output_tokens == 5  # and the model is free again


def test_a_client_that_leaves_the_queue_is_never_generated_for(start: Start) -> None:
    gate = Gate()
    ea = EaModel(TEXT, pause=gate)
    url = start(ea)
    with connected(url, planned("first")) as first:
        gate.reached()
        connected(url, planned("second")).close()
        with connected(url, planned("third", max_tokens=1)) as third:
            threading.Event().wait(0.3)  # three looks at who is still there
            gate.let(100)
            while b"[DONE]" not in first.recv(65536):
                pass
            assert third.recv(65536).startswith(b"HTTP/1.1 200")
    prompts = [bytes(prompt) for prompt in ea.prompts]
    assert prompts == [b"<user>first<assistant>", b"<user>third<assistant>"]


def test_a_prompt_that_leaves_no_room_is_refused_before_it_is_run(start: Start) -> None:
    ea = EaModel(TEXT)
    url = start(ea, max_length=60)  # less 5 of the tree and 10: 45, of which the chat takes 19
    assert ask(url, max_tokens=26, ignore_eos=True).output_tokens == 26
    refused = ask(url, max_tokens=27)
    assert refused.failure is not None
    assert refused.failure.kind == "http_400"
    assert "a prompt of 19 tokens and an answer of 27 do not fit" in refused.failure.message
    assert "--max-length 60 leaves 45" in refused.failure.message
    assert len(ea.prompts) == 1


def test_a_chat_without_a_limit_fills_the_room(start: Start) -> None:
    url = start(EaModel(TEXT), max_length=60)
    body = {"messages": [{"role": "user", "content": "hi"}], "ignore_eos": True}
    answer = httpx.post(url + PATHS["chat"], json=body).json()
    assert answer["usage"]["completion_tokens"] == 26
    body["messages"] = [{"role": "user", "content": "hi" * 20}]
    assert httpx.post(url + PATHS["chat"], json=body).status_code == 400


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("chat", {"n": 2}, 400, "n 2: EAGLE's code cannot do that"),
        ("chat", {"model": "other"}, 404, "there is no model 'other' here, only 'm'"),
        ("chat", {"messages": [{"role": "tool", "content": ""}]}, 400, "a tool cannot speak first"),
        ("completions", {"prompt": [259]}, 400, "token id 259 is not below 259"),
        ("completions", {"prompt": [-1]}, 400, "token id -1 is not below 259"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_one_line(
    start: Start, path: Any, body: dict[str, Any], status: int, message: str
) -> None:
    chat = {"messages": [{"role": "user", "content": "hi"}]}
    answer = httpx.post(start(EaModel(TEXT)) + PATHS[path], json={**chat, **body})
    assert answer.status_code == status
    error = answer.json()["error"]
    assert message in error["message"]
    assert "\n" not in error["message"]
    assert error["code"] == status


def test_bodies_without_a_length_and_unknown_paths_are_refused(start: Start) -> None:
    url = start(EaModel(TEXT))
    refused = httpx.post(url + PATHS["chat"], content=iter([b"{}"]))
    assert (refused.status_code, refused.headers["connection"]) == (411, "close")
    assert httpx.post(url + "/v1/embeddings", json={}).status_code == 404
    assert httpx.get(url + "/v1").status_code == 404


def test_a_failure_in_the_model_is_told_and_the_next_request_is_answered(start: Start) -> None:
    calls = itertools.count()

    def fail(step: int) -> None:
        if next(calls) in (0, 3):
            raise RuntimeError("CUDA out of memory")

    url = start(EaModel(TEXT, pause=fail))
    before, midway, later = (ask(url, max_tokens=9) for _ in range(3))
    assert before.failure == Failure("http_500", "RuntimeError: CUDA out of memory")
    assert midway.failure == Failure("error_event", "RuntimeError: CUDA out of memory")
    assert midway.text == "verif"
    assert (later.failure, later.output_tokens) == (None, 9)


def test_the_client_knows_the_server_and_takes_its_figures(start: Start) -> None:
    url = start(EaModel(TEXT))
    with ControlPlane(parse_endpoint(url), {}) as control:
        facts = control.identify()
    assert (facts.dialect, facts.models, facts.version) == ("eagle", ("m",), "abc1234")
    assert httpx.get(url + "/health").status_code == 200
    reported = from_sglang_info(facts.info)
    assert (reported.speculates, reported.context_length) == (True, 4096 - 15)
    assert reported.speculative == {
        "method": "eagle3",
        "draft_model": "head",
        "num_steps": 4,
        "topk": 1,
        "num_draft_tokens": 5,
    }


def test_a_port_that_is_taken_is_known_before_anything_is_loaded(start: Start) -> None:
    port = int(start(EaModel()).rpartition(":")[2])
    with pytest.raises(OSError, match="Address already in use"):
        Server("127.0.0.1", port)
