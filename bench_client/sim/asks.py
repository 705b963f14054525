"""Request bodies of the three APIs, read into one shape. Pure."""

from typing import Annotated

from msgspec import DecodeError, Meta, Struct, ValidationError, json

from bench_client.records import Api

from .sequence import Prompt, Sampling
from .vocabulary import language_of, tokenize

MAX_MODEL_LEN = 32_768


class Ask(Struct, frozen=True):
    """What a client asked for."""

    api: Api
    prompt: Prompt
    sampling: Sampling
    model: str = ""
    stream: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    token_ids: bool = False
    spec_details: bool = False
    fault: str | None = None


class AskError(ValueError):
    """A request that gets a 400; the message says why."""


class _Part(Struct):
    text: str = ""


class _Message(Struct):
    role: str
    content: str | list[_Part] | None = None

    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content or ""


class _StreamOptions(Struct, frozen=True):
    include_usage: bool = False
    continuous_usage_stats: bool = False


_Positive = Annotated[int, Meta(ge=1)]
_Temperature = Annotated[float, Meta(ge=0)]


class _OpenAiBody(Struct, kw_only=True):
    model: str = ""
    stream: bool = False
    stream_options: _StreamOptions | None = None
    temperature: _Temperature | None = None
    seed: int | None = None
    ignore_eos: bool = False
    n: Annotated[int, Meta(ge=1, le=1)] = 1
    max_tokens: _Positive | None = None
    return_token_ids: bool | None = None
    return_spec_tokens_details: bool = False
    sim_fault: str | None = None


class _ChatBody(_OpenAiBody, kw_only=True):
    messages: Annotated[list[_Message], Meta(min_length=1)]
    max_completion_tokens: _Positive | None = None


class _CompletionBody(_OpenAiBody, kw_only=True):
    prompt: str | list[str | int]


class _SamplingParams(Struct, frozen=True):
    max_new_tokens: _Positive = 128
    temperature: _Temperature = 1.0
    sampling_seed: int | None = None
    ignore_eos: bool = False


class _GenerateBody(Struct):
    text: str | None = None
    input_ids: list[int] | None = None
    sampling_params: _SamplingParams = _SamplingParams()
    stream: bool = False
    sim_fault: str | None = None


def read(api: Api, body: bytes) -> Ask:
    """Read a request body; raises AskError with one line that says what is wrong."""
    try:
        if api == "chat":
            return _chat(json.decode(body, type=_ChatBody))
        if api == "completions":
            return _completion(json.decode(body, type=_CompletionBody))
        return _generate(json.decode(body, type=_GenerateBody))
    except ValidationError as error:
        raise AskError(str(error)) from error
    except (DecodeError, UnicodeDecodeError) as error:
        raise AskError(f"the body is not JSON: {error}") from error


def _chat(body: _ChatBody) -> Ask:
    texts = [message.text() for message in body.messages]
    asked = [t for t, m in zip(texts, body.messages, strict=True) if m.role == "user"]
    prompt = _prompt("\n".join(texts), (asked or texts)[-1])
    return _openai("chat", body, prompt, body.max_completion_tokens or body.max_tokens)


def _completion(body: _CompletionBody) -> Ask:
    prompt = body.prompt
    if isinstance(prompt, list):
        if [type(part) for part in prompt] == [str]:
            prompt = str(prompt[0])
        elif not all(isinstance(part, int) for part in prompt):
            raise AskError("prompt: one text or one list of token ids, not a batch")
    return _openai("completions", body, _any_prompt(prompt), body.max_tokens or 16)


def _openai(api: Api, body: _OpenAiBody, prompt: Prompt, max_tokens: int | None) -> Ask:
    options = body.stream_options or _StreamOptions()
    # Qwen3's generation_config.json says 0.6, which both engines take where a request says nothing.
    temperature = 0.6 if body.temperature is None else body.temperature
    return Ask(
        api=api,
        prompt=prompt,
        sampling=Sampling(_room(prompt, max_tokens), temperature, body.seed, body.ignore_eos),
        model=body.model,
        stream=body.stream,
        include_usage=options.include_usage,
        continuous_usage=options.continuous_usage_stats,
        token_ids=bool(body.return_token_ids),
        spec_details=body.return_spec_tokens_details,
        fault=body.sim_fault,
    )


def _generate(body: _GenerateBody) -> Ask:
    given = body.text if body.text is not None else body.input_ids
    if given is None:
        raise AskError("give `text` or `input_ids`")
    prompt, params = _any_prompt(given), body.sampling_params
    return Ask(
        api="generate",
        prompt=prompt,
        sampling=Sampling(
            _room(prompt, params.max_new_tokens),
            params.temperature,
            params.sampling_seed,
            params.ignore_eos,
        ),
        stream=body.stream,
        fault=body.sim_fault,
    )


def _any_prompt(given: str | list[str | int] | list[int]) -> Prompt:
    if isinstance(given, str):
        return _prompt(given, given)
    ids = tuple(str(token) for token in given)
    return Prompt(" ".join(ids), ids, "en")


def _prompt(text: str, last_user_text: str) -> Prompt:
    return Prompt(text, tuple(tokenize(text)), language_of(last_user_text))


def _room(prompt: Prompt, max_tokens: int | None) -> int:
    """The most tokens the answer can have; AskError if prompt and answer don't fit."""
    room = MAX_MODEL_LEN - len(prompt.tokens)
    if not prompt.tokens:
        raise AskError("the prompt is empty")
    if room < (max_tokens or 1):
        raise AskError(
            f"maximum context length is {MAX_MODEL_LEN} tokens: {len(prompt.tokens)} in the prompt"
            f" and {max_tokens or 1} asked for"
        )
    return max_tokens or room
