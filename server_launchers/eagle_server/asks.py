"""The body of a request, checked. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Said = Mapping[str, Any]

# What EaModel cannot do, with the values that ask for nothing.
UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "stop": ("", []),
    "stop_token_ids": ([],),
    "min_tokens": (0,),
    "min_p": (0,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "logit_bias": ({},),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "tools": ([],),
    "response_format": ({"type": "text"},),
}
COMPLETION_TOKENS = 16  # OpenAI's default for completions; a chat may fill the context


class BadRequestError(ValueError):
    """One line that says what is wrong with a request; `status` is the HTTP status."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn; temperature 0 is greedy, top_p 1 and top_k 0 are off."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One request: a chat has `messages`, a completion a `prompt` of text or token ids."""

    messages: list[dict[str, str]] | None = None
    prompt: str | list[int] = ""
    model: str | None = None
    max_tokens: int | None = None
    sampling: Sampling = Sampling()
    ignore_eos: bool = False
    stream: bool = False
    token_ids: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    template: dict[str, Any] = field(default_factory=dict)

    @property
    def chat(self) -> bool:
        """Whether this is a chat, not a completion."""
        return self.messages is not None


def parse(body: bytes, chat: bool, defaults: Sampling) -> Ask:
    """The request of a body; `defaults` are the model's own. Raises BadRequestError, one line."""
    said = _object(body)
    for name, neutral in UNSUPPORTED.items():
        value = said.get(name)
        if value is not None and value not in neutral:
            raise BadRequestError(f"{name} {json.dumps(value)[:60]}: EAGLE's code cannot do that")
    stream_options = _mapping(said, "stream_options")
    return Ask(
        messages=_messages(said.get("messages")) if chat else None,
        prompt="" if chat else _prompt(said.get("prompt")),
        model=said.get("model"),
        max_tokens=_max_tokens(said, chat),
        sampling=_sampling(said, defaults),
        ignore_eos=_flag(said, "ignore_eos"),
        stream=_flag(said, "stream"),
        token_ids=_flag(said, "return_token_ids"),
        include_usage=_flag(stream_options, "include_usage"),
        continuous_usage=_flag(stream_options, "continuous_usage_stats"),
        template=dict(_mapping(said, "chat_template_kwargs")),
    )


def _object(body: bytes) -> Said:
    try:
        said = json.loads(body)
    except ValueError as error:
        raise BadRequestError(f"the body is not JSON: {error}") from None
    if not isinstance(said, dict):
        raise BadRequestError("the body is not a JSON object")
    return said


def _messages(said: Any) -> list[dict[str, str]]:
    shaped = isinstance(said, list) and all(
        isinstance(each, dict) and isinstance(each.get("role"), str) for each in said
    )
    if not said or not shaped:
        raise BadRequestError('messages must be a list of {"role": ..., "content": ...}')
    if not all(isinstance(each.get("content"), str) for each in said):
        raise BadRequestError("each message's content must be text")
    return list(said)


def _prompt(said: Any) -> str | list[int]:
    if isinstance(said, list) and len(said) == 1 and isinstance(said[0], str):
        said = said[0]
    if isinstance(said, str):
        return said
    if isinstance(said, list) and said and all(type(each) is int for each in said):
        return list(said)
    raise BadRequestError("prompt must be one text or one list of token ids")


def _max_tokens(said: Said, chat: bool) -> int | None:
    newer = chat and said.get("max_completion_tokens") is not None
    name = "max_completion_tokens" if newer else "max_tokens"
    return _integer(said, name, None if chat else COMPLETION_TOKENS, 1)


def _sampling(said: Said, defaults: Sampling) -> Sampling:
    top_p = _number(said, "top_p", defaults.top_p)
    if not 0 < top_p <= 1:
        raise BadRequestError(f"top_p {top_p:g} is not above 0 and at most 1")
    top_k = _integer(said, "top_k", defaults.top_k, -1)
    return replace(
        defaults,
        temperature=_number(said, "temperature", defaults.temperature),
        top_p=top_p,
        top_k=max(top_k or 0, 0),
        seed=_integer(said, "seed", None, 0),
    )


def _number(said: Said, name: str, default: float) -> float:
    value = said.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise BadRequestError(f"{name} must be a number that is not negative")
    return float(value)


def _integer(said: Said, name: str, default: int | None, least: int) -> int | None:
    value = said.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadRequestError(f"{name} must be an integer of at least {least}")
    return value


def _flag(said: Said, name: str) -> bool:
    value = said.get(name)
    if not isinstance(value, bool | None):
        raise BadRequestError(f"{name} must be true or false")
    return bool(value)


def _mapping(said: Said, name: str) -> Said:
    value = said.get(name)
    if not isinstance(value, dict | None):
        raise BadRequestError(f"{name} must be a JSON object")
    return value or {}
