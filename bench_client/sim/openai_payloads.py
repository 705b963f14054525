"""`/v1/chat/completions` and `/v1/completions` in both engines' spelling. Pure."""

from dataclasses import dataclass
from typing import Any

from msgspec import json

from .asks import Ask
from .payloads import Flavour, Names, sglang_speculation, texts, vllm_metrics
from .sequence import Sequence
from .vocabulary import prompt_token_id


@dataclass(frozen=True)
class _Choice:
    """An engine's choice object: `before` TEXT `after` FINISH_REASON `suffix` [token ids] }.

    `opening` is that of a role-only event. `finish` is that of a finish event of its own (%b: the
    reason), null where the last token's event carries the reason and `last_suffix`.
    """

    before: bytes
    after: bytes
    suffix: bytes
    last_suffix: bytes
    opening: bytes | None = None
    finish: bytes | None = None


_CHOICES = {
    ("vllm", "chat"): _Choice(
        before=b'{"index":0,"delta":{"content":"',
        after=b'"},"logprobs":null,"finish_reason":',
        suffix=b"",
        last_suffix=b',"stop_reason":null',
        opening=b'{"index":0,"delta":{"role":"assistant","content":""},'
        b'"logprobs":null,"finish_reason":null}',
    ),
    ("sglang", "chat"): _Choice(
        before=b'{"index":0,"delta":{"reasoning_content":null,"content":"',
        after=b'"},"logprobs":null,"finish_reason":',
        suffix=b',"matched_stop":null',
        last_suffix=b',"matched_stop":null',
        opening=b'{"index":0,"delta":{"reasoning_content":null,"role":"assistant","content":""},'
        b'"logprobs":null,"finish_reason":null,"matched_stop":null}',
        finish=b'{"index":0,"delta":{"reasoning_content":null},"logprobs":null,'
        b'"finish_reason":"%b","matched_stop":null}',
    ),
    ("vllm", "completions"): _Choice(
        before=b'{"index":0,"text":"',
        after=b'","logprobs":null,"finish_reason":',
        suffix=b',"stop_reason":null',
        last_suffix=b',"stop_reason":null',
    ),
    ("sglang", "completions"): _Choice(
        before=b'{"index":0,"text":"',
        after=b'","logprobs":null,"finish_reason":',
        suffix=b',"matched_stop":null',
        last_suffix=b',"matched_stop":null',
    ),
}


class OpenAiPayloads:
    """See Payloads, whose methods these are."""

    def __init__(self, ask: Ask, names: Names, flavour: Flavour, sequence: Sequence) -> None:
        self._ask = ask
        self._names = names
        self._sglang = flavour == "sglang"
        self._sequence = sequence
        self._choice = choice = _CHOICES[flavour, ask.api]
        kind = "chat.completion.chunk" if ask.api == "chat" else "text_completion"
        common = {"id": names.id, "object": kind, "created": names.created, "model": names.model}
        self._envelope = b"data: " + json.encode(common)[:-1] + b',"choices":['
        self._head = self._envelope + choice.before
        no_ids = b"" if self._sglang or ask.token_ids else b',"token_ids":null'
        self._end = choice.after + b"null" + choice.suffix + no_ids
        reason = b'"%b"' % sequence.finish_reason.encode()
        self._last_end = choice.after + reason + choice.last_suffix + no_ids
        # vLLM sends the running usage only with include_usage, SGLang without it as well.
        self._running_usage = ask.continuous_usage and (self._sglang or ask.include_usage)
        self._plain_end = None if self._running_usage or ask.token_ids else self._end + b"}]}\n\n"

    def opening(self) -> bytes:
        """The role-only event of a chat; vLLM's brings the prompt's token ids."""
        if self._choice.opening is None:
            return b""
        usage = prompt = b""
        if self._running_usage and not self._sglang:
            usage = self._usage(0)
        if not self._sglang:
            pieces = self._sequence.prompt.tokens
            ids = [prompt_token_id(piece) for piece in pieces] if self._ask.token_ids else None
            prompt = b',"prompt_token_ids":' + json.encode(ids)
        return b"".join((self._envelope, self._choice.opening, b"]", usage, prompt, b"}\n\n"))

    def event(self, count: int) -> bytes:
        """The event of the last `count` tokens."""
        sequence = self._sequence
        text, ids = texts(sequence, count)
        if self._plain_end and sequence.emitted < sequence.length:
            return self._head + text + self._plain_end
        end = self._end
        if sequence.emitted >= sequence.length and self._choice.finish is None:
            end = self._last_end
        if self._ask.token_ids:
            end = b"".join((end, b',"token_ids":[', ids, b"]"))
        if self._running_usage:
            return b"".join((self._head, text, end, b"}]", self._usage(sequence.emitted), b"}\n\n"))
        return b"".join((self._head, text, end, b"}]}\n\n"))

    def tail(self) -> list[bytes]:
        """The finish event where it is one of its own, SGLang's statistics, the final usage."""
        sequence = self._sequence
        events = self.cut(sequence.finish_reason) if self._choice.finish is not None else []
        if self._sglang and self._ask.spec_details and sequence.histogram:
            extra = json.encode({"spec_tokens_details": sglang_speculation(sequence)})
            events.append(self._envelope + b'],"sglext":' + extra + b"}\n\n")
        if self._ask.include_usage:
            metrics = b""
            if sequence.histogram and not self._sglang:
                metrics = b',"metrics":' + json.encode(vllm_metrics(sequence))
            usage = self._usage(sequence.emitted)
            events.append(b"".join((self._envelope, b"]", usage, metrics, b"}\n\n")))
        return events

    def cut(self, reason: str) -> list[bytes]:
        """A finish event with any reason."""
        choice = self._choice
        if choice.finish is not None:
            return [self._envelope + choice.finish % reason.encode() + b"]}\n\n"]
        end = choice.after + b'"%b"' % reason.encode() + choice.last_suffix
        return [self._head + end + b"}]}\n\n"]

    def error(self, message: str) -> bytes:
        """An error after HTTP 200."""
        error = {"message": message, "type": "InternalServerError", "param": None, "code": 500}
        if self._sglang:
            error = {"object": "error", **error}
        return b"data: " + json.encode({"error": error}) + b"\n\n"

    def whole(self) -> bytes:
        """The `chat.completion` or `text_completion` object."""
        sequence, chat = self._sequence, self._ask.api == "chat"
        text, ids = texts(sequence, sequence.emitted)
        said: dict[str, Any] = {"text": text.decode()}
        if chat:
            said = {"message": {"role": "assistant", "content": text.decode()}}
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": sequence.finish_reason}
        if self._ask.token_ids:
            choice["token_ids"] = [int(i) for i in ids.split(b",")]
        usage = json.decode(b"{" + self._usage(sequence.emitted)[1:] + b"}")
        answer: dict[str, Any] = {
            "id": self._names.id,
            "object": "chat.completion" if chat else "text_completion",
            "created": self._names.created,
            "model": self._names.model,
            "choices": [choice],
            **usage,
        }
        if sequence.histogram and not self._sglang:
            answer["metrics"] = vllm_metrics(sequence)
        elif sequence.histogram and self._ask.spec_details:
            answer["sglext"] = {"spec_tokens_details": sglang_speculation(sequence)}
        return json.encode(answer)

    def _usage(self, output: int) -> bytes:
        prompt, cached = len(self._sequence.prompt.tokens), self._sequence.cached_tokens
        counts = b',"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d' % (
            prompt,
            prompt + output,
            output,
        )
        if cached:
            counts += b',"prompt_tokens_details":{"cached_tokens":%d}' % cached
        elif self._sglang:
            counts += b',"prompt_tokens_details":null'
        return counts + (b',"reasoning_tokens":0}' if self._sglang else b"}")
