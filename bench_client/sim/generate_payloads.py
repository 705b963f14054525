"""SGLang's native `/generate`: every event repeats the whole answer so far. Pure."""

from typing import Any

from msgspec import json

from .payloads import Names, sglang_speculation, texts
from .sequence import Sequence


class GeneratePayloads:
    """See Payloads, whose methods these are."""

    def __init__(self, names: Names, sequence: Sequence) -> None:
        self._names = names
        self._sequence = sequence
        self._text = self._ids = b""

    def opening(self) -> bytes:
        """Nothing: this API has no role."""
        return b""

    def event(self, count: int) -> bytes:
        """The whole answer, grown by the last `count` tokens."""
        text, ids = texts(self._sequence, count)
        self._text += text
        self._ids += b"," + ids if self._ids else ids
        return b"data: " + self._object(self._reason() if self._sequence.done else None) + b"\n\n"

    def tail(self) -> list[bytes]:
        """Nothing: the last token's event said it all."""
        return []

    def cut(self, reason: str) -> list[bytes]:
        """The answer so far with `reason` as its finish reason."""
        ended = {"type": reason, "message": "Aborted", "status_code": None, "err_type": None}
        return [b"data: " + self._object(ended) + b"\n\n"]

    def error(self, message: str) -> bytes:
        """An error after HTTP 200."""
        kind = "InternalServerError"
        error = {"message": message, "type": kind, "code": 500, "retryable": False}
        return b"data: " + json.encode({"error": error}) + b"\n\n"

    def whole(self) -> bytes:
        """The object that a request without `stream` gets."""
        self._text, self._ids = texts(self._sequence, self._sequence.emitted)
        return self._object(self._reason())

    def _reason(self) -> dict[str, Any]:
        if self._sequence.finish_reason == "length":
            return {"type": "length", "length": self._sequence.length}
        return {"type": "stop", "matched": 151645}  # Qwen3's <|im_end|>

    def _object(self, reason: dict[str, Any] | None) -> bytes:
        sequence = self._sequence
        meta: dict[str, Any] = {
            "id": self._names.id,
            "finish_reason": reason,
            "prompt_tokens": len(sequence.prompt.tokens),
            "weight_version": "default",
            "completion_tokens": sequence.emitted,
            "cached_tokens": sequence.cached_tokens,
        }
        if reason and sequence.histogram:
            meta |= sglang_speculation(sequence)
        return b'{"text":"%b","output_ids":[%b],"meta_info":%b}' % (
            self._text,
            self._ids,
            json.encode(meta),
        )
