"""The captured streams, as the bytes and arrivals that a transport would have handed over."""

import gzip
import re
from functools import cache
from pathlib import Path

from bench_client.wire.raw import RawResponse

STREAMS = Path(__file__).parent.parent / "fixtures" / "streams"
GENERATE = "sglang-0.5.16-eagle3-tree.generate"
SGLANG_TREE = "sglang-0.5.16-eagle3-tree"
SGLANG_EAGLE3 = "sglang-0.5.16-eagle3"
SGLANG_PLAIN = "sglang-0.5.16-plain"
VLLM_EAGLE3 = "vllm-0.24.0-eagle3"
VLLM_PLAIN = "vllm-0.24.0-plain"
VLLM_METRICS = "vllm-0.32.0-eagle3-cpu"
# transformers serve with the rig's template, which makes it stream the prompt first
TRANSFORMERS_ECHO = "transformers-5.19.0-echo-cpu"
TRANSFORMERS_ONE = "transformers-5.19.0-one-token-cpu"
TRANSFORMERS_COMPLETIONS = "transformers-5.19.0-completions-cpu"
NAMES = (
    GENERATE, SGLANG_TREE, SGLANG_EAGLE3, SGLANG_PLAIN, VLLM_EAGLE3, VLLM_PLAIN, VLLM_METRICS
)  # fmt: skip


@cache
def timed_events(name: str) -> tuple[tuple[int, bytes], ...]:
    """Each event with its arrival in ns; streams saved without stamps get one event a ms."""
    path = STREAMS / f"{name}.sse.txt"
    if path.exists():
        text = path.read_bytes()
    else:
        text = gzip.decompress(path.with_name(path.name + ".gz").read_bytes())
    found = re.findall(rb"(?m)^(?:(\d+\.\d+) )?(data: .*)$", text)
    return tuple(
        (round(float(stamp) * 1e9) if stamp else number * 1_000_000, line + b"\n\n")
        for number, (stamp, line) in enumerate(found, 1)
    )


def body(name: str) -> bytes:
    """The whole body."""
    return b"".join(data for _, data in timed_events(name))


def response(reads: list[tuple[int, bytes]]) -> RawResponse:
    """A stream that arrived in these reads and ended well."""
    headers = {"content-type": "text/event-stream; charset=utf-8"}
    return RawResponse(sent_ns=0, status=200, headers=headers, reads=reads, clean_end=True)
