"""Text that a server streams before it has generated anything, as real ones sent it."""

import socket

import msgspec
import pytest
import uvloop

from bench_client.records import RequestRecord
from bench_client.run.transports import TransportSpec, make_transport
from bench_client.run.window import Hooks, measure
from bench_client.wire.payload import Dialect
from tests.factories import plan, planned
from tests.wire.captured import TRANSFORMERS_ECHO, TRANSFORMERS_ONE, VLLM_METRICS, body

from .scripted import HEAD, read_request, scripted

BROKEN = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 4\r\n\r\noops"


def answer(stream: str) -> bytes:
    return HEAD + b"content-length: %d\r\n\r\n" % len(body(stream)) + body(stream)


def measured(dialect: Dialect, one: bytes, whole: bytes) -> tuple[RequestRecord, list[int]]:
    """The record of one request, and the `max_tokens` of all that were sent."""
    asked: list[int] = []

    def serve(sock: socket.socket, _: int) -> None:
        while request := read_request(sock):
            said = msgspec.json.decode(request.partition(b"\r\n\r\n")[2])
            asked.append(said["max_tokens"])
            sock.sendall(one if said["max_tokens"] == 1 else whole)

    kept: list[RequestRecord] = []
    whole_plan = plan(requests=(planned(max_tokens=32),))
    with scripted(serve) as server:
        transport = make_transport(TransportSpec(url=server.url))
        hooks = Hooks(on_record=kept.append)
        uvloop.run(measure(whole_plan, transport, ("rig/target", dialect), hooks))
    (record,) = kept
    return record, asked


def test_one_token_tells_what_was_there_before_it() -> None:
    record, asked = measured("transformers", answer(TRANSFORMERS_ONE), answer(TRANSFORMERS_ECHO))
    assert asked == [1, 32]
    assert record.failure is None
    assert record.events.tokens == (1,) * 32
    assert record.output_text is not None
    assert record.output_text.startswith(" nfnf")


@pytest.mark.parametrize(
    ("dialect", "one", "asked"),
    [
        pytest.param("openai", BROKEN, [32], id="other-servers-are-not-asked"),
        pytest.param("transformers", BROKEN, [1, 32], id="a-failure-tells-nothing"),
        pytest.param("transformers", answer(VLLM_METRICS), [1, 32], id="no-text-too-many"),
    ],
)
def test_nothing_is_left_out_without_proof(dialect: Dialect, one: bytes, asked: list[int]) -> None:
    record, sent = measured(dialect, one, answer(TRANSFORMERS_ECHO))
    assert sent == asked
    assert len(record.events.at_ns) == 33
    assert record.output_text is not None
    assert record.output_text.startswith("tell me")
