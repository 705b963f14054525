import json
import shlex
import sys
from pathlib import Path

import pytest

from server_launchers.launch import command, prepare
from server_launchers.presets import SettingsError, load

from .building import built, settings, value

NAMES = (
    *("sglang", "sglang-eagle3", "vllm", "vllm-eagle3"),
    *("transformers", "transformers-eagle3", "eagle-plain", "sim", "sim-eagle3"),
)
NEW_SGLANG = "[--cuda-graph-max-bs-decode N] [--cuda-graph-max-bs-prefill N]"
BOTH_SGLANG = "[--cuda-graph-max-bs N] [--cuda-graph-max-bs-decode N]"
OLD_SGLANG = "[--cuda-graph-max-bs CUDA_GRAPH_MAX_BS]"


def test_every_shipped_name_makes_a_command() -> None:
    assert tuple(load().servers) == NAMES
    for name in NAMES:
        made = built(name, concurrency=1)
        assert made.name == name
        assert (made.speculative_asked is not None) == name.endswith("-eagle3")
        assert made.url == f"http://127.0.0.1:{30000 if made.engine == 'sglang' else 8000}"
        assert all(isinstance(word, str) for word in made.argv)


def test_sglang_eagle3_in_full() -> None:
    made = built("sglang-eagle3", "0.5.23", concurrency=2, seed=7, engine_python="/e/python")
    assert shlex.join(made.argv) == (
        "/e/python -m sglang.launch_server --model-path Qwen/Qwen3-8B"
        " --served-model-name Qwen/Qwen3-8B --host 127.0.0.1 --port 30000 --dtype bfloat16"
        " --context-length 16384 --random-seed 7"
        " --max-running-requests 2 --cuda-graph-max-bs-decode 2"
        " --enable-metrics --decode-log-interval 10"
        " --speculative-algorithm EAGLE3 --speculative-draft-model-path AngelSlim/Qwen3-8B_eagle3"
        " --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"
    )
    assert made.speculative_asked == {
        "method": "eagle3",
        "draft_model": "AngelSlim/Qwen3-8B_eagle3",
        "num_steps": 3,
        "topk": 1,
        "num_draft_tokens": 4,
    }
    assert made.env == {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}
    assert made.ready_line == "The server is fired up and ready to roll!"
    assert not made.simulated


@pytest.mark.parametrize(
    ("version", "text", "flag"),
    [
        ("0.5.3", None, "--cuda-graph-max-bs"),
        ("0.5.6.post2", None, "--cuda-graph-max-bs"),
        ("0.5.10", None, "--cuda-graph-max-bs"),
        ("0.5.13", None, "--cuda-graph-max-bs"),
        ("0.5.14", None, "--cuda-graph-max-bs-decode"),
        ("0.5.16", None, "--cuda-graph-max-bs-decode"),
        ("0.5.23", None, "--cuda-graph-max-bs-decode"),
        (None, None, "--cuda-graph-max-bs-decode"),
        ("0.0.0.dev1", None, "--cuda-graph-max-bs-decode"),
        ("0.5.3", NEW_SGLANG, "--cuda-graph-max-bs-decode"),  # the help knows better
        ("0.5.16", BOTH_SGLANG, "--cuda-graph-max-bs-decode"),
        ("0.5.23", OLD_SGLANG, "--cuda-graph-max-bs"),
    ],
)
def test_sglang_graph_flag_by_version_and_help(
    version: str | None, text: str | None, flag: str
) -> None:
    made = built("sglang-eagle3", version, text, concurrency=2)
    graph_flags = [word for word in made.argv if word.startswith("--cuda-graph")]
    assert graph_flags == [flag]
    assert value(made, flag) == "2"


def test_sglang_without_planned_concurrency_keeps_its_defaults() -> None:
    made = built("sglang")
    assert value(made, "--max-running-requests") is None
    assert not any("cuda-graph" in word for word in made.argv)


def test_the_llama_note_is_reproduced() -> None:
    made = built("sglang-eagle3", "0.5.3", model="llama-3.1-8b", concurrency=2)
    flags = {
        "--model-path": "meta-llama/Llama-3.1-8B-Instruct",
        "--speculative-draft-model-path": "jamesliu1/sglang-EAGLE3-Llama-3.1-Instruct-8B",
        "--speculative-num-steps": "5",
        "--speculative-eagle-topk": "8",
        "--speculative-num-draft-tokens": "32",
        "--mem-fraction-static": "0.6",
        "--cuda-graph-max-bs": "2",
        "--dtype": "float16",
    }
    assert {flag: value(made, flag) for flag in flags} == flags
    # Its head is made for 2048 tokens; this lets SGLang raise that to the target's.
    assert value(made, "--context-length") == "16384"
    assert made.env == {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}
    plain = built("sglang", "0.5.3", model="llama-3.1-8b", concurrency=2)
    assert value(plain, "--mem-fraction-static") == "0.6"  # both arms alike
    assert plain.env == {}
    assert value(plain, "--dtype") == "float16"
    assert not any("speculative" in word for word in plain.argv)


def test_vllm_eagle3() -> None:
    made = built("vllm-eagle3", "0.32.0", concurrency=1, memory_fraction=0.8)
    assert made.argv[1:5] == ("-m", "vllm.entrypoints.cli.main", "serve", "Qwen/Qwen3-8B")
    assert json.loads(value(made, "--speculative-config") or "") == {
        "method": "eagle3",
        "model": "AngelSlim/Qwen3-8B_eagle3",
        "num_speculative_tokens": 3,
    }
    assert value(made, "--per-request-spec-decode-metrics") == "summary"
    assert value(made, "--max-num-seqs") == "1"
    assert value(made, "--gpu-memory-utilization") == "0.8"
    assert value(made, "--max-model-len") == "16384"
    assert made.speculative_asked
    assert made.speculative_asked["num_draft_tokens"] == 4
    plain = built("vllm", "0.32.0", concurrency=1)
    assert value(plain, "--speculative-config") is None
    assert value(plain, "--per-request-spec-decode-metrics") is None
    assert plain.draft_model is None


@pytest.mark.parametrize(
    ("version", "text", "there"),
    [
        ("0.24.0", None, False),
        ("0.30.2", None, False),
        ("0.31.0", None, True),
        ("0.32.0+cpu", None, True),
        ("1.0", None, True),
        ("0.24.0", "  --per-request-spec-decode-metrics {detailed,none,summary}", True),
        ("0.32.0", "  --speculative-config", False),
    ],
)
def test_vllm_per_request_metrics_where_it_has_them(
    version: str, text: str | None, there: bool
) -> None:
    made = built("vllm-eagle3", version, text)
    assert (value(made, "--per-request-spec-decode-metrics") == "summary") == there


def test_eagle_runs_one_at_a_time() -> None:
    made = built("transformers-eagle3", concurrency=1)
    assert made.argv[:3] == ("python3", "-m", "server_launchers.eagle_server")
    assert value(made, "--total-token") == "60"
    assert value(made, "--depth") == "7"  # EAGLE's default: its tree is depth + 1 deep
    assert value(made, "--top-k") == "10"
    assert value(made, "--max-length") == "16384"
    assert value(made, "--draft-model") == "AngelSlim/Qwen3-8B_eagle3"
    with pytest.raises(SettingsError) as refused:
        built("transformers-eagle3", concurrency=2)
    assert "one request at a time" in str(refused.value)
    assert "--concurrency 1" in str(refused.value)


def test_eagle_in_an_environment_of_its_own_finds_our_server_last(tmp_path: Path) -> None:
    """Not by PYTHONPATH: this client's packages would shadow the engine's."""
    made = built("transformers-eagle3", engine_python="/eagle/bin/python")
    assert made.argv[:2] == ("/eagle/bin/python", "-c")
    assert "PYTHONPATH" not in made.env
    assert "sys.path.append" in made.argv[2]
    assert built("transformers-eagle3", engine_python=sys.executable).argv[1] == "-m"


def test_transformers_serve() -> None:
    made = built("transformers", "5.19.0", concurrency=1, seed=3)
    assert shlex.join(made.argv) == (
        "python3 -m transformers.cli.transformers serve Qwen/Qwen3-8B --host 127.0.0.1 --port 8000"
        " --dtype bfloat16 --default-seed 3 --log-level info"
    )
    assert made.ready_path == "/health"
    assert value(made, "--cb-max-memory-percent") is None
    batched = built("transformers", "5.19.0", concurrency=2)
    assert "--continuous-batching" in batched.argv
    assert value(batched, "--cb-max-memory-percent") is None  # what a GPU has
    on_cpu = command(settings("transformers", "cpu", concurrency=2))
    assert value(on_cpu, "--cb-max-memory-percent") == "0.1"


@pytest.mark.parametrize("version", ["4.57.6", "5.4.0"])
def test_an_older_transformers_serve_counts_no_tokens(version: str) -> None:
    with pytest.raises(SettingsError, match=r"no token counts: 5\.5 or later is needed"):
        built("transformers", version)
    assert built("transformers", "5.5.0").argv[4] == "Qwen/Qwen3-8B"


def test_sim_runs_on_this_python_and_needs_no_probe() -> None:
    made = prepare("sim-eagle3", load(), {"port": 9001, "extra_args": ["--tps", "50"]})
    assert shlex.join(made.argv[1:]) == (
        "-m bench_client.sim --host 127.0.0.1 --port 9001 --model sim --draft-model sim-eagle3"
        " --tps 50"
    )
    assert made.argv[0] == sys.executable
    assert made.served_model_name == "sim"
    assert made.simulated


def test_cpu_builds_get_their_flags_and_the_user_still_wins() -> None:
    vllm = command(settings("vllm", "cpu"))
    assert "--enforce-eager" in vllm.argv
    assert vllm.env == {"VLLM_CPU_KVCACHE_SPACE": "4", "VLLM_SERVER_DEV_MODE": "1"}
    sglang = command(settings("sglang", "cpu", concurrency=2, memory_fraction=0.5))
    assert value(sglang, "--device") == "cpu"
    assert value(sglang, "--attention-backend") == "torch_native"
    assert value(sglang, "--mem-fraction-static") == "0.5"
    assert sglang.env["SGLANG_USE_CPU_ENGINE"] == "1"
    assert not any("cuda-graph" in word for word in sglang.argv)
    assert "--enforce-eager" not in command(settings("vllm", "cuda")).argv


def test_urls_can_be_reached() -> None:
    assert built("vllm", host="0.0.0.0").url == "http://127.0.0.1:8000"
    assert built("vllm", host="::").url == "http://[::1]:8000"
    assert built("vllm", host="10.0.0.7").url == "http://10.0.0.7:8000"
