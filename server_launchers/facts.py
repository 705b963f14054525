"""What a server itself says it runs, from its log, /metrics, /v1/models and /server_info. Pure.

Every parser takes what that version gives and leaves the rest None. Speculation is told in SGLang's
terms (see settings.asked): a chain of n drafts is topk 1 and verifies n + 1 tokens.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, structs

Json = Mapping[str, Any]

_QUOTED = r"""(?:'(?P<single>[^']*)'|"(?P<double>[^"]*)")"""  # as repr does


class ServerFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server's own report. `speculates` is None where it does not say.

    `kv_tokens` is the size of the KV cache, `graph_batch_sizes` the sizes with a CUDA graph (of
    requests in SGLang, of tokens in vLLM). `samples` is false where it decodes greedily whatever
    temperature is asked for. Of the revisions of model and draft a parser gives what the server
    was told to load; hub.py makes commits of them.
    """

    engine_version: str | None = None
    model: str | None = None
    revision: str | None = None
    draft_revision: str | None = None
    served_model_names: tuple[str, ...] | None = None
    dtype: str | None = None
    attention_backend: str | None = None
    context_length: int | None = None
    max_running_requests: int | None = None
    kv_tokens: int | None = None
    memory_fraction: float | None = None
    prefix_caching: bool | None = None
    graph_batch_sizes: tuple[int, ...] | None = None
    speculates: bool | None = None
    samples: bool | None = None
    speculative: dict[str, Any] | None = None


def merge(*reports: ServerFacts) -> ServerFacts:
    """One report of several: the first that says something wins."""
    said: dict[str, Any] = {}
    for report in reports:
        for field, value in structs.asdict(report).items():
            if value is not None:
                said.setdefault(field, value)
    return ServerFacts(**said)


def unmet(asked: Json | None, facts: ServerFacts) -> tuple[str, ...]:
    """Where the server's own report contradicts what was asked for; one line each."""
    if facts.speculates is None:
        return ()
    if asked is None:
        return ("a plain server was asked for, and it speculates",) if facts.speculates else ()
    if not facts.speculates:
        return ("speculation was asked for, and the server runs without it",)
    reported = facts.speculative or {}
    return tuple(
        f"{key} {asked[key]} was asked for, and the server runs {reported[key]}"
        for key in ("draft_model", "num_steps", "topk", "num_draft_tokens")
        if asked.get(key) is not None
        and reported.get(key) is not None
        and asked[key] != reported[key]
    )


def from_models(body: Json) -> ServerFacts:
    """GET /v1/models."""
    models = [model for model in body.get("data", ()) if isinstance(model, dict)]
    first = models[0] if models else {}
    return ServerFacts(
        served_model_names=tuple(str(model.get("id")) for model in models),
        model=first.get("root"),
        context_length=first.get("max_model_len"),
    )


def from_sglang_info(info: Json) -> ServerFacts:
    """GET /server_info (before 0.5.9 /get_server_info)."""
    states = info.get("internal_states") or [{}]
    state = {**info, **states[0]}
    per_rank = state.get("effective_max_running_requests_per_dp")
    ranks = info.get("dp_size") or 1
    running = per_rank * ranks if per_rank else info.get("max_running_requests")
    algorithm = info.get("speculative_algorithm")
    return ServerFacts(
        engine_version=info.get("version"),
        model=info.get("model_path"),
        revision=info.get("revision"),
        draft_revision=info.get("speculative_draft_model_revision") if algorithm else None,
        served_model_names=(info["served_model_name"],) if info.get("served_model_name") else None,
        dtype=info.get("dtype"),
        attention_backend=info.get("attention_backend"),
        context_length=info.get("context_length"),
        max_running_requests=running,
        kv_tokens=info.get("max_total_num_tokens") or _capacity(state),
        memory_fraction=info.get("mem_fraction_static"),
        prefix_caching=_negated(info.get("disable_radix_cache")),
        graph_batch_sizes=_sglang_graphs(state, running),
        speculates=bool(algorithm) if "speculative_algorithm" in info else None,
        speculative=_sglang_speculative(info, algorithm) if algorithm else None,
    )


def from_sglang_log(log: str) -> ServerFacts:
    """SGLang's log: its arguments (a dataclass; in 0.5.23 a dict) and what it allocated."""
    line = _first(r"server_args=(?:ServerArgs\()?(.*)", log) or ""
    said = {name: a or b for name, a, b in re.findall(r"\b(\w+)'?[=:] ?(?:'([^']*)'|(\w+))", line)}
    total = re.search(
        r"max_total_num_tokens=(\d+),.*max_running_requests=(\d+), context_len=(\d+)", log
    )
    graphs = _first(
        r"Capture (?:target verify |decode )?(?:CUDA|cuda) graph .*bs=\[([\d, ]+)\]", log
    )
    algorithm = _known(said.get("speculative_algorithm"))
    return ServerFacts(
        model=said.get("model_path"),
        revision=_known(said.get("revision")),
        draft_revision=_known(said.get("speculative_draft_model_revision")) if algorithm else None,
        dtype=said.get("dtype"),
        attention_backend=_known(said.get("attention_backend")),
        kv_tokens=int(total[1]) if total else None,
        max_running_requests=int(total[2]) if total else None,
        context_length=int(total[3]) if total else None,
        graph_batch_sizes=_numbers(graphs) if graphs else None,
        speculates=algorithm is not None if "speculative_algorithm" in said else None,
        speculative=_sglang_speculative(said, algorithm) if algorithm else None,
    )


def from_vllm_log(log: str) -> ServerFacts:
    """The log of vLLM (0.10 to 0.32) from its start on."""
    start = re.search(r"Initializing a V1 LLM engine \(v([^)]+)\) with config: (.*)", log)
    config = start[2] if start else ""
    sizes = _first(r"'cudagraph_capture_sizes': \[([\d, ]*)\]", config)
    kv_tokens = _first(r"KV cache size: ([\d,]+) tokens", log)
    seqs = _first(r"non-default args: .*'max_num_seqs': (\d+)", log)
    length = _first(r"max_seq_len=(\d+)", config)
    caching = _first(r"enable_prefix_caching=(\w+)", config)
    model = re.search(rf"\bmodel={_QUOTED}", config)
    drafts = _first(r"speculative_config=([^,]+)", config)
    return ServerFacts(
        engine_version=start[1] if start else None,
        model=_unquoted(model) if model else None,
        revision=_known(_first(r"\brevision=([^,]+)", config)),
        dtype=_first(r" dtype=torch\.(\w+)", config),
        attention_backend=_first(
            r"Using (?:AttentionBackendEnum\.)?(\w+)(?: attention)? backend", log
        ),
        context_length=int(length) if length else None,
        max_running_requests=int(seqs) if seqs else None,
        kv_tokens=int(kv_tokens.replace(",", "")) if kv_tokens else None,
        prefix_caching=caching == "True" if caching else None,
        graph_batch_sizes=_numbers(sizes) if sizes is not None else None,
        speculates=None if drafts is None else drafts != "None",
        speculative=_vllm_speculative(config),
    )


def from_vllm_metrics(text: str) -> ServerFacts:
    """The labels of `vllm:cache_config_info` in vLLM's /metrics."""
    labels = _first(r"^vllm:cache_config_info\{(.*)\}", text) or ""
    config = dict(re.findall(r'(\w+)="([^"]*)"', labels))
    tokens = config.get("kv_cache_size_tokens", "None")
    if tokens == "None" and config.get("num_gpu_blocks", "None") != "None":
        tokens = str(int(config["num_gpu_blocks"]) * int(config.get("block_size", 16)))
    fraction = config.get("gpu_memory_utilization")
    caching = config.get("enable_prefix_caching")
    return ServerFacts(
        kv_tokens=int(tokens) if tokens.isdigit() else None,
        memory_fraction=float(fraction) if fraction else None,
        prefix_caching=caching == "True" if caching else None,
    )


def _sglang_speculative(info: Json, algorithm: str) -> dict[str, Any]:
    return {
        "method": algorithm.lower(),
        "draft_model": info.get("speculative_draft_model_path"),
        "num_steps": _number(info.get("speculative_num_steps")),
        "topk": _number(info.get("speculative_eagle_topk")),
        "num_draft_tokens": _number(info.get("speculative_num_draft_tokens")),
    }


def _vllm_speculative(config: str) -> dict[str, Any] | None:
    """What it drafts with; null too where a version says it in another form."""
    found = re.search(rf"SpeculativeConfig\(method='(\w+)', model={_QUOTED}", config)
    number = _first(r"SpeculativeConfig\(.*?\bnum_spec_tokens=(\d+)", config)
    if not found or not number:
        return None
    steps = int(number)
    return {
        "method": found[1],
        "draft_model": _unquoted(found),
        "num_steps": steps,
        "topk": 1,
        "num_draft_tokens": steps + 1,
    }


def _unquoted(found: re.Match[str]) -> str | None:
    return found["single"] if found["double"] is None else found["double"]


def _sglang_graphs(state: Json, running: int | None) -> tuple[int, ...] | None:
    """The captured batch sizes: those planned, up to the running requests."""
    decode = (state.get("cuda_graph_config") or {}).get("decode") or {}
    planned = decode.get("bs") or state.get("cuda_graph_bs")
    if state.get("disable_cuda_graph") or decode.get("backend") == "disabled":
        return ()
    if not planned:
        return None
    return tuple(size for size in planned if running is None or size <= running)


def _capacity(state: Json) -> int | None:
    return (state.get("memory_usage") or {}).get("token_capacity")


def _negated(value: bool | None) -> bool | None:
    return None if value is None else not value


def _known(text: str | None) -> str | None:
    return None if text == "None" else text


def _number(value: int | str | None) -> int | None:
    """SGLang's own number, or the digits of one in its log."""
    return int(value) if isinstance(value, int | str) and str(value).isdigit() else None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text))


def _first(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else None
