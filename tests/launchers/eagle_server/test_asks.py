import json
from typing import Any

import pytest

from server_launchers.eagle_server.asks import BadRequestError, Sampling, parse

MESSAGES = [{"role": "user", "content": "hi"}]
CHAT = {"messages": MESSAGES}


def chat(**said: Any) -> Any:
    return parse(json.dumps(CHAT | said).encode(), chat=True, defaults=Sampling())


def completion(**said: Any) -> Any:
    return parse(json.dumps({"prompt": "hi"} | said).encode(), chat=False, defaults=Sampling())


def test_a_silent_request_takes_the_models_own_sampling() -> None:
    own = Sampling(temperature=0.6, top_p=0.95, top_k=20)
    assert parse(json.dumps(CHAT).encode(), chat=True, defaults=own).sampling == own
    body = json.dumps(CHAT | {"temperature": 0, "top_p": 1.0, "top_k": -1, "seed": 7}).encode()
    assert parse(body, chat=True, defaults=own).sampling == Sampling(0.0, 1.0, 0, 7)


def test_a_chat_may_fill_the_context_and_a_completion_has_openais_default() -> None:
    assert chat().max_tokens is None
    assert completion().max_tokens == 16


def test_the_newer_name_of_max_tokens_wins_in_a_chat() -> None:
    assert chat(max_tokens=5, max_completion_tokens=7).max_tokens == 7
    assert chat(max_tokens=5, max_completion_tokens=None).max_tokens == 5
    assert completion(max_tokens=5, max_completion_tokens=7).max_tokens == 5


def test_what_a_stream_shall_tell() -> None:
    ask = chat(
        stream=True,
        return_token_ids=True,
        stream_options={"include_usage": True, "continuous_usage_stats": True},
        ignore_eos=True,
        chat_template_kwargs={"enable_thinking": False},
    )
    assert (ask.stream, ask.token_ids, ask.include_usage, ask.continuous_usage) == (True,) * 4
    assert ask.ignore_eos
    assert ask.template == {"enable_thinking": False}
    silent = chat(stream_options=None, stream=None)
    assert (silent.stream, silent.include_usage) == (False, False)


def test_a_completion_takes_text_or_token_ids() -> None:
    assert completion(prompt=["one"]).prompt == "one"
    assert completion(prompt=[1, 2]).prompt == [1, 2]


@pytest.mark.parametrize(
    "said",
    [
        {"n": 1, "best_of": 1, "stop": None, "logprobs": False, "presence_penalty": 0.0},
        {"stop": [], "repetition_penalty": 1.0, "response_format": {"type": "text"}},
    ],
)
def test_what_asks_for_nothing_is_taken(said: dict[str, Any]) -> None:
    assert chat(**said).messages == MESSAGES


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"n": 2}, "n 2"),
        ({"stop": ["\n"]}, "stop"),
        ({"logprobs": True}, "logprobs true"),
        ({"repetition_penalty": 1.1}, "repetition_penalty"),
        ({"min_p": 0.1}, "min_p"),
        ({"temperature": -1}, "temperature must be"),
        ({"temperature": "hot"}, "temperature must be"),
        ({"temperature": True}, "temperature must be"),
        ({"top_p": 0}, "top_p 0 is not"),
        ({"top_p": 1.5}, "top_p 1.5 is not"),
        ({"top_k": -2}, "top_k must be"),
        ({"max_tokens": 0}, "max_tokens must be an integer of at least 1"),
        ({"max_tokens": 2.5}, "max_tokens must be"),
        ({"max_completion_tokens": 0}, "max_completion_tokens must be"),
        ({"seed": True}, "seed must be"),
        ({"stream": "yes"}, "stream must be true or false"),
        ({"stream_options": [1]}, "stream_options must be a JSON object"),
        ({"messages": []}, "messages must be a list"),
        ({"messages": "hi"}, "messages must be a list"),
        ({"messages": [{"content": "hi"}]}, "messages must be a list"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "must be text"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(said: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequestError, match=message) as refused:
        chat(**said)
    assert "\n" not in str(refused.value)
    assert refused.value.status == 400


@pytest.mark.parametrize("prompt", [None, [], ["a", "b"], [[1], [2]], [True], 5])
def test_a_prompt_that_is_none_is_refused(prompt: Any) -> None:
    with pytest.raises(BadRequestError, match="prompt must be one text or one list of token ids"):
        completion(prompt=prompt)


@pytest.mark.parametrize(("body", "message"), [(b"{", "not JSON"), (b"[]", "not a JSON object")])
def test_a_body_that_is_no_request_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        parse(body, chat=True, defaults=Sampling())
