"""The bytes of answers and stream events, spelled as vLLM and SGLang spell them. Pure.

An event is complete server-sent-event text: `data: ...` and the blank line. `event` is the hot
path: it joins fragments that were prepared when the request came.
"""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from msgspec import json

from .sequence import Sequence
from .vocabulary import TAPE_LENGTH

Flavour = Literal["vllm", "sglang"]

DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Names:
    """What every event of a response repeats; `created` in seconds since the epoch."""

    id: str
    created: int
    model: str


class Payloads(Protocol):
    """The spelling of one response. [DONE] and HTTP framing are the server's."""

    def opening(self) -> bytes:
        """The role-only event that goes out with the first token, or nothing."""

    def event(self, count: int) -> bytes:
        """The event that carries the last `count` of the tokens emitted so far."""

    def tail(self) -> list[bytes]:
        """Events after the last token's."""

    def cut(self, reason: str) -> list[bytes]:
        """Events that end a stream early, with `reason` as its finish reason."""

    def error(self, message: str) -> bytes:
        """The event of an error in the middle of the stream."""

    def whole(self) -> bytes:
        """The answer in one piece, for a request that does not stream."""


def texts(sequence: Sequence, count: int) -> tuple[bytes, bytes]:
    """Text and comma-separated ids of the last `count` tokens, as they stand in JSON."""
    at = (sequence.start + sequence.emitted - count) % TAPE_LENGTH
    tape = sequence.tape
    if count == 1:
        return tape.texts[at], tape.ids[at]
    if count <= TAPE_LENGTH:
        return b"".join(tape.texts[at : at + count]), b",".join(tape.ids[at : at + count])
    places = [(at + i) % TAPE_LENGTH for i in range(count)]
    return b"".join(tape.texts[i] for i in places), b",".join(tape.ids[i] for i in places)


def sglang_speculation(sequence: Sequence) -> dict[str, Any]:
    """SGLang's counts of one request; its accept length is output tokens / verify steps."""
    steps, accepted = sequence.verify_steps, sequence.accepted
    proposed = steps * (len(sequence.histogram) - 1)
    return {
        "spec_accept_rate": accepted / proposed if proposed else 0.0,
        "spec_accept_length": sequence.emitted / steps if steps else 0.0,
        "spec_num_correct_drafts": accepted,
        "spec_num_proposed_drafts": proposed,
        "spec_verify_ct": steps,
        "spec_correct_drafts_histogram": sequence.histogram,
    }


def vllm_metrics(sequence: Sequence) -> dict[str, Any]:
    """The summary that vLLM adds; its accept length is 1 + accepted drafts / verify steps."""
    steps, accepted = sequence.verify_steps, sequence.accepted
    chain = len(sequence.histogram) - 1
    summary = {
        "mean_acceptance_length": 1 + accepted / steps if steps else None,
        "draft_acceptance_rate": accepted / (steps * chain) if steps else None,
        "acceptance_histogram": sequence.histogram,
        "num_spec_steps": steps,
        "num_accepted_draft_tokens": accepted,
        "num_draft_tokens": steps * chain,
        "num_spec_tokens": chain,
    }
    return {"speculative_decoding": summary}


def error_answer(flavour: Flavour, code: int, kind: str, message: str) -> bytes:
    """The body of an HTTP error, as vLLM (`{"error": {...}}`) and SGLang (bare) answer it."""
    error = {"message": message, "type": kind, "param": None, "code": code}
    return json.encode({"object": "error", **error} if flavour == "sglang" else {"error": error})
