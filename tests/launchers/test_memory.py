import json
from pathlib import Path
from typing import Any

import pytest

from bench_client.records import Memory
from server_launchers.memory import from_sglang_info, from_sglang_log, from_vllm_log, merge

FIXTURES = Path(__file__).parents[1] / "fixtures"

# As 0.4.4 to 0.5.10 log: the draft is loaded, and its pool made, after the target's graphs.
# In 0.4 `avail mem` comes before `mem usage`, in 0.5 after it.
OLDER_SGLANG = """\
[2025-10-16 09:06:10] Load weight begin. avail mem=46.81 GB
[2025-10-16 09:06:14] Load weight end. type=LlamaForCausalLM, dtype=torch.float16, \
avail mem=31.72 GB, mem usage=15.09 GB.
[2025-10-16 09:06:15] KV Cache is allocated. #tokens: 100352, K size: 6.12 GB, V size: 6.12 GB
[2025-10-16 09:06:15] Memory pool end. avail mem=18.95 GB
[2025-10-16 09:06:16] Capture cuda graph begin. This can take up to several minutes. \
avail mem=18.40 GB
[2025-10-16 09:06:16] Capture cuda graph bs [1, 2, 4, 8]
Capturing batches (bs=1 avail_mem=18.02 GB): 100%|######| 4/4 [00:02<00:00,  1.52it/s]
[2025-10-16 09:06:19] Capture cuda graph end. Time elapsed: 2.93 s. avail mem=18.00 GB. \
mem usage=0.40 GB.
[2025-10-16 09:06:19] Load weight begin. avail mem=17.98 GB
[2025-10-16 09:06:20] Load weight end. type=LlamaForCausalLMEagle3, dtype=torch.float16, \
avail mem=16.20 GB, mem usage=1.78 GB.
[2025-10-16 09:06:20] KV Cache is allocated. #tokens: 100352, K size: 0.19 GB, V size: 0.19 GB
[2025-10-16 09:06:23] Capture draft cuda graph end. Time elapsed: 2.60 s. mem usage=0.25 GB. \
avail mem=15.40 GB.
[2025-10-16 09:06:24] max_total_num_tokens=100352, chunked_prefill_size=2048, \
max_prefill_tokens=16384, max_running_requests=48, context_len=8192, available_gpu_mem=15.40 GB
"""


def text(name: str) -> str:
    return (FIXTURES / name).read_text()


def info(name: str) -> Any:
    return json.loads(text(name))


@pytest.mark.parametrize(
    ("name", "graphs", "free"),
    [
        ("sglang-0.5.16-eagle3.log", 1.98 + 0.21 + 1.46 + 0.10 + 0.13, 53.02),
        ("sglang-0.5.16-eagle3-tree.log", 2.74 + 1.03 + 1.46 + 0.58 + 1.03, 50.05),
    ],
)
def test_sglang_log_of_a_target_and_its_draft(name: str, graphs: float, free: float) -> None:
    assert from_sglang_log(text(f"facts/{name}")) == Memory(
        weights_gib=15.28,
        draft_weights_gib=2.23,
        kv_cache_gib=64.16,
        kv_cache_tokens=467169,
        draft_kv_cache_gib=1.78,
        cuda_graphs_gib=pytest.approx(graphs),
        free_gib=free,
    )


def test_older_sglang_makes_the_drafts_pool_last() -> None:
    assert from_sglang_log(OLDER_SGLANG) == Memory(
        weights_gib=15.09,
        draft_weights_gib=1.78,
        kv_cache_gib=12.24,
        kv_cache_tokens=100352,
        draft_kv_cache_gib=0.38,
        cuda_graphs_gib=0.65,
        free_gib=15.40,
    )


def test_what_other_ranks_repeat_is_not_added_up() -> None:
    ranks = [OLDER_SGLANG.replace("] ", f" {rank}] ") for rank in ("TP0", "TP1", "DP0 TP2 EP2")]
    mixed = "\n".join(
        line for lines in zip(*(rank.splitlines() for rank in ranks), strict=True) for line in lines
    )
    assert from_sglang_log(mixed) == from_sglang_log(OLDER_SGLANG)


def test_a_pool_of_keys_and_values_in_one() -> None:
    line = "[2025-10-16 09:06:15] KV Cache is allocated. #tokens: 5000, KV size: 3.42 GB\n"
    assert from_sglang_log(line) == Memory(kv_cache_gib=3.42)


def test_graphs_of_which_one_is_unknown_have_no_sum() -> None:
    silent = OLDER_SGLANG.replace(" mem usage=0.25 GB.", "")
    assert from_sglang_log(silent).cuda_graphs_gib is None


def test_a_cpu_that_gained_memory_by_loading_does_not_say() -> None:
    log = text("logs/sglang-eagle-cpu.log")
    assert "mem usage=-0.17 GB" in log
    found = from_sglang_log(log)
    assert (found.weights_gib, found.draft_weights_gib) == (None, 0.03)
    assert (found.kv_cache_gib, found.draft_kv_cache_gib) == (5.58, 0.7)


def test_sglang_info() -> None:
    """0.5.16: of its graphs only those of the target's verify step, where the log has 6.84."""
    assert from_sglang_info(info("facts/sglang-0.5.16-eagle3-tree.server_info.json")) == Memory(
        weights_gib=15.28, kv_cache_gib=64.16, kv_cache_tokens=467169
    )
    newer = info("engines/sglang-0.5.23-plain.server_info.json")
    assert from_sglang_info(newer) == Memory(
        weights_gib=0.016, kv_cache_gib=0.063, kv_cache_tokens=16384, cuda_graphs_gib=0
    )
    newer["internal_states"][0]["memory_usage"]["graph"] = {"prefill": 1.5, "target_verify": 0.25}
    assert from_sglang_info(newer).cuda_graphs_gib == 1.75
    assert from_sglang_info({}) == Memory()


def test_vllm_log_on_a_gpu() -> None:
    log = text("facts/vllm-0.24.0-eagle3.log")
    found = Memory(
        weights_gib=16.01,
        draft_in_weights=True,
        kv_cache_gib=65.77,
        kv_cache_tokens=466000,
        cuda_graphs_gib=0.67,
    )
    assert from_vllm_log(log) == found
    ngram = log.replace("SpeculativeConfig(method='eagle3'", "SpeculativeConfig(method='ngram'")
    assert ngram != log
    assert not from_vllm_log(ngram).draft_in_weights


def test_vllm_log_on_a_cpu() -> None:
    """Which does not say what the weights take."""
    assert from_vllm_log(text("engines/vllm-0.32.0-eagle3.server.log")) == Memory(
        kv_cache_gib=1.0, kv_cache_tokens=232960
    )


LINES: dict[str, dict[str, Any]] = {
    # Some versions say GiB, others GiB memory.
    "Model loading took 15.8114 GiB and 4.602626 seconds": {"weights_gib": 15.8114},
    "Model loading took 12.66 GiB memory and 31.6 seconds": {"weights_gib": 12.66},
    "Available KV cache memory: 6.9 GiB": {"kv_cache_gib": 6.9},
    "Initial free memory 78.84 GiB, reserved 50.0 GiB memory for KV Cache as specified": {
        "kv_cache_gib": 50.0
    },
    "Auto set (9.25/23.54) GiB for KV cache on node 0, with": {"kv_cache_gib": 9.25},
    "GPU KV cache size: 89,760 tokens": {"kv_cache_tokens": 89760},
    "Graph capturing finished in 1 secs, took 0.10 GiB\n"  # a trial
    "Graph capturing finished in 9 secs, took 0.45 GiB": {"cuda_graphs_gib": 0.45},
    "Encoder graph capturing finished in 2 secs, took 0.30 GiB (4 graphs)": {},
    "Actual usage is 14.08 GiB for weight, 1.97 GiB for peak activation, 0.07 GiB for": {
        "activations_gib": 1.97
    },
    "Actual usage is 15.26 GiB for consumed memory (weights + non-torch), 1.44 GiB for peak "
    "activation, and 0.23 GiB for CUDAGraph memory.": {"activations_gib": 1.44},
}


@pytest.mark.parametrize("line", LINES)
def test_lines_of_other_vllm_versions(line: str) -> None:
    log = f"(EngineCore pid=7) INFO 10-30 14:19:31 [x.py:1] {line}\n"
    assert from_vllm_log(log) == Memory(**LINES[line])


def test_the_log_wins_over_the_endpoint() -> None:
    log = from_sglang_log(text("facts/sglang-0.5.16-eagle3-tree.log"))
    told = Memory(weights_gib=1.0, activations_gib=2.0)
    both = merge(log, told)
    assert both
    assert (both.weights_gib, both.activations_gib) == (15.28, 2.0)
    assert merge(from_sglang_log(""), from_vllm_log(""), from_sglang_info({})) is None
