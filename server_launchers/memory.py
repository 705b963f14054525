"""Where a server's memory went, from its log and SGLang's /server_info. Pure.

SGLang (0.4.4 to 0.5.23) prints GB and means GiB, 2^30 bytes; vLLM (0.10 to 0.32) prints GiB. What
a version does not print is None, and so is what a CPU build reckons to be negative.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import structs

from bench_client.records import Memory

Json = Mapping[str, Any]

# "[2026-11-30 14:55:05 TP1] Load weight begin.": a rank that repeats what rank 0 says.
_OTHER_RANK = re.compile(r"^\[[^\]\n]*\b(?:DP|TP|EP|PP)[1-9].*$\n?", re.MULTILINE)
_LOADED = re.compile(r"Load weight end\..*mem usage=(-?[\d.]+) GB")
_POOL = re.compile(r"KV Cache is allocated\.(.*)")
_POOL_SIZE = re.compile(r"\b(?:K|V|KV) size: ([\d.]+) ?GB")
# One of `cuda graph`, `CUDA graph`; of the target, its verify steps, the draft, piece by piece.
_CAPTURED = re.compile(r"Capture .*graph end\.(.*)", re.IGNORECASE)
_USAGE = re.compile(r"mem usage=(-?[\d.]+) GB")
# On a GPU when it sizes the cache itself, when its size is set, and on a CPU.
_VLLM_KV_CACHE = (
    r"Available KV cache memory: ([\d.]+) GiB",
    r"reserved ([\d.]+) GiB memory for KV Cache",
    r"(?:Auto|Explicitly) set \(([\d.]+)/[\d.]+\) GiB for KV cache",
)
_VLLM_DRAFTS = r"speculative_config=SpeculativeConfig\(method='(?!ngram|suffix)"


def merge(*reports: Memory) -> Memory | None:
    """One report of several: the first that says something wins. None if all are silent."""
    said: dict[str, Any] = {}
    for report in reports:
        for field, value in structs.asdict(report).items():
            if value is not None and value is not False:
                said.setdefault(field, value)
    return Memory(**said) if said else None


def from_sglang_log(log: str) -> Memory:
    """SGLang's log. It loads the target first, then the draft, whose pool is the last one."""
    log = _OTHER_RANK.sub("", log)
    loads = [float(usage) for usage in _LOADED.findall(log)]
    target, drafts = (loads[0] if loads else None), loads[1:]
    pools = [_total(_POOL_SIZE.findall(sizes)) for sizes in _POOL.findall(log)]
    draft_pool = pools.pop() if drafts and len(pools) > 1 else None
    tokens = _number(r"max_total_num_tokens=(\d+)", log)
    return Memory(
        weights_gib=_positive(target),
        draft_weights_gib=_positive(_total(drafts)),
        kv_cache_gib=_total(pools),
        kv_cache_tokens=None if tokens is None else int(tokens),
        draft_kv_cache_gib=draft_pool,
        cuda_graphs_gib=_positive(_total(map(_usage, _CAPTURED.findall(log)))),
        free_gib=_number(r"available_gpu_mem=([\d.]+) GB", log),
    )


def from_sglang_info(info: Json) -> Memory:
    """GET /server_info: `memory_usage`, of the target alone but for the graphs.

    Where these are one number (0.5.16) and not one by phase (0.5.23), it leaves most of them out.
    """
    states = info.get("internal_states") or [{}]
    usage = states[0].get("memory_usage") or {}
    graphs = usage.get("graph")
    return Memory(
        weights_gib=_positive(usage.get("weight")),
        kv_cache_gib=usage.get("kvcache"),
        kv_cache_tokens=usage.get("token_capacity"),
        cuda_graphs_gib=_total(graphs.values()) if isinstance(graphs, Mapping) else None,
    )


def from_eagle_info(info: Json) -> Memory:
    """GET /server_info of our server over EAGLE's code, which speaks in our own terms."""
    return msgspec.convert(info.get("memory") or {}, Memory)


def from_vllm_log(log: str) -> Memory:
    """VLLM's log. The memory of its model is the target's and the draft's together."""
    weights = _number(r"Model loading took ([\d.]+) GiB", log)
    caches = (_number(pattern, log) for pattern in _VLLM_KV_CACHE)
    tokens = _number(r"KV cache size: ([\d,]+) tokens", log)
    return Memory(
        weights_gib=weights,
        draft_in_weights=weights is not None and re.search(_VLLM_DRAFTS, log) is not None,
        kv_cache_gib=next((size for size in caches if size is not None), None),
        kv_cache_tokens=None if tokens is None else int(tokens),
        cuda_graphs_gib=_number(r"Graph capturing finished in [\d.]+ secs, took ([\d.]+) GiB", log),
        activations_gib=_number(r"([\d.]+) GiB for peak activation", log),
    )


def _usage(captured: str) -> float | None:
    found = _USAGE.search(captured)
    return float(found[1]) if found else None


def _total(sizes: Iterable[Any]) -> float | None:
    """Of all sizes; None where there are none, or one of them is unknown."""
    known = list(sizes)
    if not known or None in known:
        return None
    return round(sum(map(float, known)), 3)


def _positive(size: float | None) -> float | None:
    return None if size is None or size < 0 else size


def _number(pattern: str, log: str) -> float | None:
    """Of the last line that has it: graphs may be captured for a trial first."""
    found = re.findall(pattern, log)
    return float(found[-1].replace(",", "")) if found else None
