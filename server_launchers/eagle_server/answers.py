"""An answer in OpenAI's spelling and vLLM's: token ids, running usage, metrics. Pure."""

import json
from dataclasses import dataclass
from typing import Any

from .asks import Ask
from .detokenize import Detokenizer
from .stepping import Acceptance, Finish, Step

DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Names:
    """What every event of a response repeats; `created` in seconds since the epoch."""

    id: str
    created: int
    model: str


class Answer:
    """One answer as it grows. `acceptance` is null where nothing is drafted."""

    def __init__(
        self,
        ask: Ask,
        names: Names,
        prompt_tokens: int,
        detokenizer: Detokenizer,
        acceptance: Acceptance | None,
    ) -> None:
        self._ask = ask
        self._names = names
        self._prompt_tokens = prompt_tokens
        self._detokenizer = detokenizer
        self._acceptance = acceptance
        self._texts: list[str] = []
        self._token_ids: list[int] = []
        self._finish: Finish | None = None

    def add(self, step: Step) -> bytes:
        """Take one step; returns its event."""
        if self._acceptance:
            self._acceptance.count(step)
        # The end token has no text, even in a tokenizer that does not call it special.
        shown = step.token_ids[:-1] if step.finish == "stop" else step.token_ids
        self._texts.append(self._detokenizer.add(shown))
        self._token_ids += step.token_ids
        self._finish = step.finish
        chunk = self._envelope(streamed=True)
        chunk["choices"] = [self._choice(self._delta(), list(step.token_ids))]
        if self._ask.continuous_usage:
            chunk["usage"] = self._usage()
        return sse(chunk)

    def tail(self) -> bytes:
        """The events behind the last step's: usage and speculation where asked for, and the end."""
        if not self._ask.include_usage:
            return DONE
        chunk = self._envelope(streamed=True)
        chunk |= {"choices": [], "usage": self._usage(), **self._metrics()}
        return sse(chunk) + DONE

    def whole(self) -> dict[str, Any]:
        """The answer in one piece."""
        text = "".join(self._texts)
        said: dict[str, Any] = {"text": text}
        if self._ask.chat:
            said = {"message": {"role": "assistant", "content": text}}
        answer = self._envelope(streamed=False)
        answer["choices"] = [self._choice(said, self._token_ids)]
        return answer | {"usage": self._usage(), **self._metrics()}

    def __str__(self) -> str:
        """The answer in one line of a log."""
        counts, tokens = self._acceptance, len(self._token_ids)
        line = f"{self._prompt_tokens} tokens in, {tokens} out ({self._finish})"
        if counts is None or not counts.steps:
            return line
        return f"{line}, {counts.steps} steps, accept length {counts.accept_length:.3f}"

    def _envelope(self, *, streamed: bool) -> dict[str, Any]:
        kind = "text_completion"
        if self._ask.chat:
            kind = "chat.completion.chunk" if streamed else "chat.completion"
        names = self._names
        return {"id": names.id, "object": kind, "created": names.created, "model": names.model}

    def _delta(self) -> dict[str, Any]:
        if not self._ask.chat:
            return {"text": self._texts[-1]}
        role = {"role": "assistant"} if len(self._texts) == 1 else {}
        return {"delta": {**role, "content": self._texts[-1]}}

    def _choice(self, said: dict[str, Any], token_ids: list[int]) -> dict[str, Any]:
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": self._finish}
        return {**choice, "token_ids": token_ids} if self._ask.token_ids else choice

    def _usage(self) -> dict[str, int]:
        output = len(self._token_ids)
        return {
            "prompt_tokens": self._prompt_tokens,
            "total_tokens": self._prompt_tokens + output,
            "completion_tokens": output,
        }

    def _metrics(self) -> dict[str, Any]:
        counts = self._acceptance
        if counts is None:
            return {}
        steps, accepted = counts.steps, counts.accepted
        summary = {
            "mean_acceptance_length": counts.accept_length if steps else None,
            "acceptance_histogram": counts.histogram,
            "num_spec_steps": steps,
            "num_accepted_draft_tokens": accepted,
            "num_draft_tokens": steps * counts.longest,
            "num_spec_tokens": counts.longest,
            # Not vLLM's: EaModel's first token, too, comes out of a verify step.
            "tokens": steps + accepted,
        }
        return {"metrics": {"speculative_decoding": summary}}


def sse(payload: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + encode(payload) + b"\n\n"


def encode(payload: dict[str, Any]) -> bytes:
    """Compact JSON."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()


def error_body(message: str, status: int) -> dict[str, Any]:
    """The body of an HTTP error, or of an error in the middle of a stream, as vLLM spells it."""
    kinds = {400: "BadRequestError", 404: "NotFoundError", 500: "InternalServerError"}
    kind = kinds.get(status, "BadRequestError")
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}
