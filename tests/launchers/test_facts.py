import json
from pathlib import Path
from typing import Any

import pytest

from server_launchers.facts import (
    ServerFacts,
    from_models,
    from_sglang_info,
    from_sglang_log,
    from_vllm_log,
    from_vllm_metrics,
    merge,
    unmet,
)

FACTS = Path(__file__).parents[1] / "fixtures" / "facts"
TREE = {
    "method": "eagle3",
    "draft_model": "rig/eagle3",
    "num_steps": 5,
    "topk": 8,
    "num_draft_tokens": 32,
}
CHAIN = {**TREE, "num_steps": 3, "topk": 1, "num_draft_tokens": 4}
UP_TO_48 = (*range(1, 9), *range(10, 33, 2), 40, 44, 48)


def text(name: str) -> str:
    return (FACTS / name).read_text()


def info(**changes: Any) -> dict[str, Any]:
    return {**json.loads(text("sglang-0.5.16-eagle3-tree.server_info.json")), **changes}


def test_sglang_info() -> None:
    assert from_sglang_info(info()) == ServerFacts(
        engine_version="0.5.16",
        model="rig/target",
        served_model_names=("rig",),
        dtype="bfloat16",
        attention_backend="triton",
        context_length=8192,
        max_running_requests=48,
        kv_tokens=467169,
        memory_fraction=0.6,
        prefix_caching=True,
        graph_batch_sizes=UP_TO_48,  # planned to 256, captured to the running requests
        speculates=True,
        speculative=TREE,
    )


def test_sglang_info_of_a_plain_server() -> None:
    plain = from_sglang_info(info(speculative_algorithm=None, disable_radix_cache=True))
    assert plain.speculates is False
    assert plain.speculative is None
    assert plain.prefix_caching is False


def test_sglang_info_of_the_seeds_version() -> None:
    """0.5.3: no cuda_graph_config, the sizes as `cuda_graph_bs`."""
    old = from_sglang_info(
        {
            "version": "0.5.3",
            "model_path": "m",
            "cuda_graph_bs": [1, 2],
            "max_running_requests": None,
            "speculative_algorithm": "EAGLE3",
            "internal_states": [{"memory_usage": {"token_capacity": 8192}}],
        }
    )
    assert old.engine_version == "0.5.3"
    assert old.graph_batch_sizes == (1, 2)
    assert old.kv_tokens == 8192
    assert old.speculates


def test_sglang_info_without_graphs_or_state() -> None:
    states = [{"disable_cuda_graph": True}]
    assert from_sglang_info(info(internal_states=states)).graph_batch_sizes == ()
    assert from_sglang_info({}) == ServerFacts()
    assert from_sglang_info({"internal_states": []}) == ServerFacts()


@pytest.mark.parametrize("name", ["sglang-0.5.16-eagle3-tree.log", "sglang-0.5.16-eagle3.log"])
def test_sglang_log(name: str) -> None:
    facts = from_sglang_log(text(name))
    assert facts.model == "rig/target"
    assert facts.dtype == "bfloat16"
    assert facts.kv_tokens == 467169
    assert facts.max_running_requests == 48
    assert facts.context_length == 8192
    assert facts.graph_batch_sizes == UP_TO_48
    assert facts.speculates
    assert facts.speculative == (TREE if "tree" in name else CHAIN)


def test_sglang_log_of_0_5_23_prints_its_arguments_as_a_dict() -> None:
    facts = from_sglang_log(
        "[2026-11-30 16:31:43] server_args={'model_path': 'rig/target', 'dtype': 'bfloat16',"
        " 'kv_cache_dtype': 'auto', 'attention_backend': 'torch_native',"
        " 'speculative_algorithm': None, 'speculative_num_steps': None}\n"
    )
    assert (facts.model, facts.dtype) == ("rig/target", "bfloat16")
    assert facts.attention_backend == "torch_native"
    assert facts.speculates is False
    assert facts.speculative is None


def test_vllm_log_on_a_gpu() -> None:
    facts = from_vllm_log(text("vllm-0.24.0-eagle3.log"))
    sizes = facts.graph_batch_sizes
    assert sizes
    assert (sizes[:4], sizes[-1]) == ((1, 2, 4, 8), 512)
    assert facts == ServerFacts(
        engine_version="0.24.0",
        model="rig/target",
        dtype="bfloat16",
        attention_backend="TRITON_ATTN",
        context_length=8192,
        max_running_requests=64,
        kv_tokens=466000,
        prefix_caching=True,
        graph_batch_sizes=sizes,
        speculates=True,
        speculative=CHAIN,
    )


def test_vllm_log_on_a_cpu() -> None:
    facts = from_vllm_log(text("vllm-0.32.0-eagle3-cpu.log"))
    assert facts.engine_version == "0.32.0"
    assert facts.kv_tokens == 465920
    assert facts.graph_batch_sizes == ()
    assert facts.max_running_requests is None
    assert facts.speculative == CHAIN


def test_vllm_log_of_a_plain_server() -> None:
    log = text("vllm-0.24.0-eagle3.log")
    before, _, rest = log.partition("speculative_config=SpeculativeConfig(")
    plain = from_vllm_log(f"{before}speculative_config=None{rest.partition(')')[2]}")
    assert plain.speculates is False
    assert plain.speculative is None


DRAFT = "SpeculativeConfig(method='eagle3', model='rig/eagle3', num_spec_tokens=3)"


@pytest.mark.parametrize(
    ("said", "speculative"),
    [
        (
            "SpeculativeConfig(method='eagle3', model='rig/eagle3', num_spec_tokens=3, foo=1)",
            CHAIN,
        ),
        (
            """SpeculativeConfig(method='eagle3', model="/o'neil/head", num_spec_tokens=3)""",
            {**CHAIN, "draft_model": "/o'neil/head"},
        ),
        ("SpeculativeConfig(method='ngram', model=None, num_spec_tokens=3)", None),
        ("{'method': 'eagle3', 'model': 'rig/eagle3'}", None),  # a form of some other version
    ],
)
def test_a_vllm_whose_drafts_are_not_understood_speculates_all_the_same(
    said: str, speculative: dict[str, Any] | None
) -> None:
    log = text("vllm-0.24.0-eagle3.log")
    assert DRAFT in log
    facts = from_vllm_log(log.replace(DRAFT, said))
    assert facts.speculates
    assert facts.speculative == speculative


def test_vllm_quotes_a_path_with_an_apostrophe_otherwise() -> None:
    log = text("vllm-0.24.0-eagle3.log").replace("model='rig/target'", '''model="/o'neil/m"''', 1)
    assert from_vllm_log(log).model == "/o'neil/m"


def test_the_revision_that_was_asked_for() -> None:
    assert from_sglang_log(text("sglang-0.5.16-eagle3.log")).draft_revision == "main"
    assert from_sglang_log(text("sglang-0.5.16-eagle3.log")).revision is None
    asked = from_sglang_info(info(revision="v2", speculative_draft_model_revision="v3"))
    assert (asked.revision, asked.draft_revision) == ("v2", "v3")
    plain = info(speculative_algorithm=None, speculative_draft_model_revision="v3")
    assert from_sglang_info(plain).draft_revision is None
    log = text("vllm-0.24.0-eagle3.log")
    assert from_vllm_log(log).revision is None
    pinned = log.replace(" revision=None", " revision=v2").replace(
        "r_revision=None", "r_revision=v9"
    )
    assert from_vllm_log(pinned).revision == "v2"


def test_older_vllm_names_its_attention_backend_otherwise() -> None:
    log = "INFO 07-01 10:00:00 [cuda.py:290] Using FLASH_ATTN attention backend out of potential"
    assert from_vllm_log(log).attention_backend == "FLASH_ATTN"


def test_vllm_metrics() -> None:
    assert from_vllm_metrics(text("vllm-0.32.0-eagle3-cpu.metrics.txt")) == ServerFacts(
        kv_tokens=465920, memory_fraction=0.92, prefix_caching=True
    )
    old = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1.0\n'
    assert from_vllm_metrics(old).kv_tokens == 1600
    assert from_vllm_metrics("") == ServerFacts()


def test_models() -> None:
    body = json.loads(text("vllm-0.32.0-eagle3-cpu.models.json"))
    assert from_models(body) == ServerFacts(
        model="rig/target", served_model_names=("rig",), context_length=4096
    )
    assert from_models({"data": []}).served_model_names == ()


def test_the_first_report_wins() -> None:
    both = merge(
        from_models(json.loads(text("vllm-0.32.0-eagle3-cpu.models.json"))),
        from_vllm_metrics(text("vllm-0.32.0-eagle3-cpu.metrics.txt")),
        from_vllm_log(text("vllm-0.32.0-eagle3-cpu.log")),
        ServerFacts(kv_tokens=1, speculates=False),
    )
    assert (both.kv_tokens, both.context_length) == (465920, 4096)
    assert (both.speculates, both.engine_version) == (True, "0.32.0")
    assert merge() == ServerFacts()


def test_unmet() -> None:
    tree = from_sglang_info(info())
    assert unmet(TREE, tree) == ()
    assert unmet({**TREE, "num_draft_tokens": None}, tree) == ()
    assert unmet(CHAIN, tree) == (
        "num_steps 3 was asked for, and the server runs 5",
        "topk 1 was asked for, and the server runs 8",
        "num_draft_tokens 4 was asked for, and the server runs 32",
    )
    assert unmet(None, tree) == ("a plain server was asked for, and it speculates",)
    plain = from_sglang_info(info(speculative_algorithm=None))
    assert unmet(TREE, plain) == ("speculation was asked for, and the server runs without it",)
    assert unmet(None, plain) == ()
    assert unmet(TREE, ServerFacts()) == ()  # it does not say
