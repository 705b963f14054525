"""Planned requests to request bodies, in the dialect of each engine."""

from typing import Any, Literal

import msgspec

from bench_client.records import Api, Plan, PlannedRequest, Sampling

Dialect = Literal["vllm", "sglang", "transformers", "sim", "eagle", "openai"]

PATHS: dict[Api, str] = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "generate": "/generate",
}

# What makes each engine count tokens and verify steps in its stream. An engine not known gets
# only what every OpenAI-compatible server takes.
_CONTINUOUS = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
_FINAL = {"stream_options": {"include_usage": True}}
_COUNTS: dict[Dialect, dict[Api, dict[str, Any]]] = {
    "vllm": {
        "chat": {**_CONTINUOUS, "return_token_ids": True},
        "completions": {**_CONTINUOUS, "return_token_ids": True},
    },
    "sglang": {
        # SGLang refuses return_token_ids in a streamed chat.
        "chat": {**_CONTINUOUS, "return_spec_tokens_details": True},
        "completions": {
            **_CONTINUOUS,
            "return_token_ids": True,
            "return_spec_tokens_details": True,
        },
    },
    "transformers": {"chat": {}, "completions": {}},
    "openai": {"chat": _FINAL, "completions": _FINAL},
}
_LIMITS = {"max_tokens", "max_completion_tokens", "n", "sampling_params", "generation_config"}
_COUNTS["sim"] = _COUNTS["eagle"] = _COUNTS["vllm"]


def request_body(request: PlannedRequest, plan: Plan, model: str, dialect: Dialect) -> bytes:
    """The JSON body of one request. `extra_body` wins over everything else."""
    sampling = plan.sampling
    if plan.api == "generate":
        body = _generate_body(request, plan)
    else:
        body = {"model": model, **_prompt(request, plan.api)}
        body |= {"max_tokens": request.max_tokens, "temperature": sampling.temperature}
        body |= {"seed": request.seed, "stream": True}
        body |= _COUNTS[dialect][plan.api]
        if sampling.ignore_eos:
            body |= _endless(sampling) if dialect == "transformers" else {"ignore_eos": True}
    return msgspec.json.encode(_merged(body, sampling.extra_body))


def _merged(body: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    """The extra body over the other; of `sampling_params` each parameter for itself."""
    params = body.get("sampling_params", {}) | extra.get("sampling_params", {})
    return body | extra | ({"sampling_params": params} if params else {})


def max_events(request: PlannedRequest, plan: Plan) -> int | None:
    """How many events tell a server that ignores the token limit from one that is only talkative.

    Null where `extra_body` may have set another limit, or asked for several answers.
    """
    if _LIMITS & plan.sampling.extra_body.keys():
        return None
    return 10 * request.max_tokens + 1000


def _prompt(request: PlannedRequest, api: Api) -> dict[str, Any]:
    if api == "completions":
        return {"prompt": _text(request)}
    return {"messages": request.messages}


def _endless(sampling: Sampling) -> dict[str, Any]:
    """What `ignore_eos` is to transformers serve, which refuses that name."""
    settings = {"eos_token_id": -1, "do_sample": sampling.temperature > 0}
    return {"generation_config": msgspec.json.encode(settings).decode()}


def _generate_body(request: PlannedRequest, plan: Plan) -> dict[str, Any]:
    # No seed: SGLang's older versions refuse a sampling parameter that they don't know.
    params: dict[str, Any] = {
        "temperature": plan.sampling.temperature,
        "max_new_tokens": request.max_tokens,
    }
    if plan.sampling.ignore_eos:
        params["ignore_eos"] = True
    return {"text": _text(request), "sampling_params": params, "stream": True}


def _text(request: PlannedRequest) -> str:
    """The prompt where no chat template is applied."""
    return "\n\n".join(message.content for message in request.messages)
