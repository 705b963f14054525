"""The endpoints beside generation, in vLLM's and SGLang's spelling."""

from typing import Any

from bench_client import __version__

from .asks import MAX_MODEL_LEN
from .engine import Engine
from .engine_log import DECODE_LOG_INTERVAL, EngineLog
from .payloads import Flavour

VERSION = f"{__version__}+sim"


def models(model: str, flavour: Flavour, created: int) -> dict[str, Any]:
    """`/v1/models`."""
    entry = {
        "id": model,
        "object": "model",
        "created": created,
        "owned_by": flavour,
        "root": model,
        "parent": None,
        "max_model_len": MAX_MODEL_LEN,
    }
    return {"object": "list", "data": [entry]}


def model_info(model: str) -> dict[str, Any]:
    """SGLang's `/model_info`."""
    return {"model_path": model, "tokenizer_path": model, "is_generation": True, "simulated": True}


def server_info(
    model: str, draft_model: str | None, engine: Engine, log: EngineLog
) -> dict[str, Any]:
    """SGLang's `/server_info`: its arguments, and the scheduler's averages."""
    settings = engine.settings
    state: dict[str, Any] = {
        "last_gen_throughput": log.throughput,
        "effective_max_running_requests_per_dp": settings.max_running_requests,
    }
    if log.lifetime_accept_length is not None:
        state["avg_spec_accept_length"] = log.lifetime_accept_length
    return {
        "simulated": True,
        "version": VERSION,
        "model_path": model,
        "served_model_name": model,
        "context_length": MAX_MODEL_LEN,
        "dtype": "bfloat16",
        "disable_radix_cache": not settings.prefix_cache,
        "max_running_requests": settings.max_running_requests,
        "decode_log_interval": DECODE_LOG_INTERVAL,
        "random_seed": settings.seed,
        **speculative_arguments(draft_model, settings.spec_steps),
        "internal_states": [state],
    }


def speculative_arguments(draft_model: str | None, steps: int) -> dict[str, Any]:
    """SGLang's speculative settings for a chain of `steps` drafts, null without a draft model."""
    on = draft_model is not None
    return {
        "speculative_algorithm": "EAGLE3" if on else None,
        "speculative_draft_model_path": draft_model,
        "speculative_num_steps": steps if on else None,
        "speculative_eagle_topk": 1 if on else None,
        "speculative_num_draft_tokens": steps + 1 if on else None,
    }


def metrics(model: str, engine: Engine, log: EngineLog) -> bytes:
    """Prometheus text with both engines' names.

    As in the real ones, vLLM's counters move with every step, SGLang's when a request ends, and
    SGLang's gauges tell of the last log window only.
    """
    counters, settings = engine.counters, engine.settings
    running, waiting = len(engine.running), len(engine.waiting)
    queries = counters.prompt_tokens if settings.prefix_cache else 0
    vllm: list[tuple[str, str, float]] = [
        ("num_requests_running", "gauge", running),
        ("num_requests_waiting", "gauge", waiting),
        ("prompt_tokens_total", "counter", counters.prompt_tokens),
        ("generation_tokens_total", "counter", counters.generation_tokens),
        ("request_success_total", "counter", counters.finished_requests),
        ("prefix_cache_queries_total", "counter", queries),
        ("prefix_cache_hits_total", "counter", counters.cached_tokens),
    ]
    sglang: list[tuple[str, str, float]] = [
        ("num_running_reqs", "gauge", running),
        ("num_queue_reqs", "gauge", waiting),
        ("gen_throughput", "gauge", log.throughput),
        ("prompt_tokens_total", "counter", counters.finished_prompt_tokens),
        ("generation_tokens_total", "counter", counters.finished_tokens),
        ("num_requests_total", "counter", counters.finished_requests),
    ]
    if settings.speculative:
        drafts = counters.verify_steps
        accepted = sum(counters.accepted_per_position)
        vllm += [
            ("spec_decode_num_drafts_total", "counter", drafts),
            ("spec_decode_num_draft_tokens_total", "counter", drafts * settings.spec_steps),
            ("spec_decode_num_accepted_tokens_total", "counter", accepted),
        ]
        sglang += [
            ("spec_verify_calls_total", "counter", counters.finished_verify_steps),
            ("spec_accept_length", "gauge", log.accept_length),
            ("spec_accept_rate", "gauge", max(log.accept_length - 1, 0) / settings.spec_steps),
        ]
    lines = [
        _metric(f"vllm:{n}", kind, f'engine="0",model_name="{model}"', v) for n, kind, v in vllm
    ]
    lines += [_metric(f"sglang:{n}", kind, f'model_name="{model}"', v) for n, kind, v in sglang]
    if settings.speculative:
        lines.append(_per_position(model, counters.accepted_per_position))
    return "".join(lines).encode()


def _metric(name: str, kind: str, labels: str, value: float) -> str:
    return f"# TYPE {name} {kind}\n{name}{{{labels}}} {float(value)}\n"


def _per_position(model: str, accepted: list[int]) -> str:
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    lines = [
        f'{name}{{engine="0",model_name="{model}",position="{position}"}} {float(n)}\n'
        for position, n in enumerate(accepted)
    ]
    return f"# TYPE {name} counter\n" + "".join(lines)
