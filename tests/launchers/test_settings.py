import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from server_launchers import presets as presets_module
from server_launchers.launch import command, prepare, prepare_elsewhere
from server_launchers.presets import SettingsError, load, parse
from server_launchers.settings import Device, LaunchCommand, LaunchSettings, resolve
from server_launchers.shell import redacted, shell_line

NAMES = (
    *("sglang", "sglang-eagle3", "vllm", "vllm-eagle3"),
    *("transformers", "transformers-eagle3", "eagle-plain", "sim", "sim-eagle3"),
)
NEW_SGLANG = "[--cuda-graph-max-bs-decode N] [--cuda-graph-max-bs-prefill N]"
BOTH_SGLANG = "[--cuda-graph-max-bs N] [--cuda-graph-max-bs-decode N]"
OLD_SGLANG = "[--cuda-graph-max-bs CUDA_GRAPH_MAX_BS]"


@pytest.fixture(autouse=True)
def no_user_presets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(presets_module, "USERS", tmp_path / "none.toml")


def settings(name: str, device: Device | None = None, **overrides: Any) -> LaunchSettings:
    return resolve(name, load(), overrides, device)


def built(
    name: str, version: str | None = None, text: str | None = None, **overrides: Any
) -> LaunchCommand:
    found = structs.replace(settings(name, **overrides), engine_version=version, engine_help=text)
    return command(found)


def value(built: LaunchCommand, flag: str) -> str | None:
    """The value of `flag`; None without it. A flag given twice fails."""
    argv = list(built.argv)
    assert argv.count(flag) <= 1
    return argv[argv.index(flag) + 1] if flag in argv else None


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
    assert made.env == {}
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
    plain = built("sglang", "0.5.3", model="llama-3.1-8b", concurrency=2)
    assert value(plain, "--mem-fraction-static") == "0.6"  # both arms alike
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
        ("0.31.1", None, False),
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


@pytest.mark.parametrize("name", ["vllm-eagle3", "sim-eagle3"])
@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({"spec_topk": 8}, "drafts a chain, not a tree: spec_topk must be 1"),
        ({"spec_steps": 3, "spec_draft_tokens": 32}, "3 steps verify 4 tokens, not 32"),
    ],
)
def test_engines_that_draft_chains_refuse_a_tree(name: str, tree: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        built(name, **tree)


def test_the_embedded_engine_takes_the_steps_asked_for() -> None:
    made = built("sim-eagle3", spec_steps=3, spec_draft_tokens=4)
    assert value(made, "--spec-steps") == "3"
    assert made.speculative_asked is not None
    assert made.speculative_asked["num_steps"] == 3
    with pytest.raises(SettingsError, match="--accept-en"):
        built("sim-eagle3", spec_steps=3, simulate_accept_length=2.0)


def test_vllm_needs_a_draft_length_for_any_model() -> None:
    made = built("vllm-eagle3", model="/models/other", draft_model="/models/head")
    config = json.loads(value(made, "--speculative-config") or "")
    assert config["num_speculative_tokens"] == 3
    assert config["model"] == "/models/head"


def test_simulated_acceptance() -> None:
    vllm = built("vllm-eagle3", simulate_accept_length=2.5)
    config = json.loads(value(vllm, "--speculative-config") or "")
    assert config["rejection_sample_method"] == "synthetic"
    assert config["synthetic_acceptance_length"] == 2.5
    assert vllm.simulated
    sglang = built("sglang-eagle3", "0.5.23", simulate_accept_length=2.5)
    assert sglang.env == {
        "SGLANG_SIMULATE_ACC_LEN": "2.5",
        "SGLANG_SIMULATE_ACC_TOKEN_MODE": "real-draft-token",
    }
    assert sglang.simulated
    assert not built("sglang", "0.5.23", simulate_accept_length=2.5).simulated


@pytest.mark.parametrize(
    ("name", "version", "overrides", "message"),
    [
        ("vllm-eagle3", None, {"simulate_accept_length": 4.5}, "choose 1 to 4"),
        ("sglang-eagle3", None, {"simulate_accept_length": 0.5}, "choose 1 to 4"),
        ("sglang-eagle3", "0.5.13", {"simulate_accept_length": 2}, "0.5.16 or later"),
        (
            "sglang-eagle3",
            None,
            {"simulate_accept_length": 2, "model": "llama-3.1-8b"},
            "chain only: set spec_topk to 1",
        ),
        ("transformers-eagle3", None, {"simulate_accept_length": 2}, "cannot simulate"),
    ],
)
def test_simulated_acceptance_that_cannot_be(
    name: str, version: str | None, overrides: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        built(name, version, **overrides)


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


def test_eagles_own_baseline_is_a_preset_away(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text('[servers.eagle-plain]\nengine = "eagle"\n')
    made = command(resolve("eagle-plain", load(own), {}))
    assert "--plain" in made.argv
    assert "--total-token" not in made.argv
    assert "--draft-model" in made.argv
    assert made.speculative_asked is None
    with pytest.raises(SettingsError, match="/m has no known draft model"):
        resolve("eagle-plain", load(own), {"model": "/m"})


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


def test_a_model_that_is_no_preset_is_used_as_it_is() -> None:
    made = built("sglang", model="/models/My Model")
    assert value(made, "--model-path") == "/models/My Model"
    assert value(made, "--dtype") is None
    named = built("sglang", model="/models/m", served_model_name="m")
    assert value(named, "--served-model-name") == named.served_model_name == "m"
    with pytest.raises(SettingsError, match=r"/models/m has no known draft model: .*--draft-model"):
        settings("sglang-eagle3", model="/models/m")
    auto = built("sglang-eagle3", model="/models/m", draft_model="/models/h")
    assert value(auto, "--speculative-num-steps") is None  # SGLang chooses all three


def test_a_plain_arm_ignores_draft_options() -> None:
    plain = settings("sglang", draft_model="/h", spec_steps=5, simulate_accept_length=2)
    assert (plain.draft_model, plain.spec_steps, plain.simulate_accept_length) == (None,) * 3


def test_a_chain_follows_its_steps() -> None:
    assert settings("sglang-eagle3", spec_steps=5).spec_draft_tokens == 6
    with pytest.raises(SettingsError, match="5 steps verifies 6 tokens, not 32"):
        settings("sglang-eagle3", spec_steps=5, spec_draft_tokens=32)
    tree = settings("sglang-eagle3", spec_steps=5, spec_topk=8, spec_draft_tokens=32)
    assert (tree.spec_steps, tree.spec_topk, tree.spec_draft_tokens) == (5, 8, 32)


def test_sglang_takes_all_three_numbers_or_none() -> None:
    with pytest.raises(SettingsError, match="give all or none"):
        built("sglang-eagle3", model="/m", draft_model="/h", spec_steps=3)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"port": 0}, "port 0 is not between 1 and 65535"),
        ({"port": "30000"}, r"port: Expected `int \| null`?|port: Expected `int`"),
        ({"concurrency": 0}, "concurrency 0 is below 1"),
        ({"memory_fraction": 1.5}, "not between 0 and 1"),
        ({"spec_steps": 0}, "spec_steps 0 is below 1"),
        ({"no_such": 1}, "no_such"),
    ],
)
def test_bad_values_get_one_clear_line(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message) as refused:
        settings("sglang-eagle3", **overrides)
    assert "\n" not in str(refused.value)


def test_unknown_server() -> None:
    with pytest.raises(SettingsError, match="no server preset sglang-eagle: did you mean"):
        settings("sglang-eagle")
    with pytest.raises(SettingsError, match="no server preset tgi: there are sglang, "):
        settings("tgi")


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


def test_users_presets_win_key_by_key(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text(
        """
        default_model = "mine"
        [servers.fast]
        engine = "sglang"
        speculative = true
        extra_args = ["--stream-interval", "1"]
        env = { A = "server" }
        [servers.vllm]
        port = 8123
        [engines.sglang]
        env = { A = "engine", B = "engine" }
        extra_args = ["--log-level", "info"]
        [models.mine]
        model = "/m"
        draft_model = "/h"
        [models.mine.sglang]
        spec_steps = 2
        spec_topk = 1
        [models.qwen3-8b]
        dtype = "float16"
        """
    )
    loaded = load(own)
    made = command(resolve("fast", loaded, {"extra_args": ["--log-level", "error"]}))
    assert value(made, "--model-path") == "/m"
    assert value(made, "--speculative-num-draft-tokens") == "3"
    assert made.argv[-6:] == (
        *("--log-level", "info", "--stream-interval", "1", "--log-level", "error"),
    )
    assert made.env == {"A": "server", "B": "engine"}
    assert made.url.endswith(":30000")
    assert resolve("vllm", loaded, {}).port == 8123
    assert resolve("vllm", loaded, {"port": 1}).port == 1
    qwen = resolve("vllm-eagle3", loaded, {"model": "qwen3-8b"})
    assert (qwen.dtype, qwen.draft_model) == ("float16", "AngelSlim/Qwen3-8B_eagle3")


def test_users_file_is_found_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "mine" not in load().servers
    own = tmp_path / "presets.toml"
    own.write_text('[servers.mine]\nengine = "sim"\nmodel = "sim"\n')
    monkeypatch.setattr(presets_module, "USERS", own)
    assert "mine" in load().servers


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[servers.x]\nengine = 'vllm'\nspec_step = 3",
            r"x.toml: \[servers.x\] has no key spec_step: did you mean spec_steps\?",
        ),
        ("[server.x]\n", r"x.toml has no key server: did you mean servers\?"),
        ("[servers.x]\nport = 1", r"\[servers.x\] needs an engine: one of sim, vllm"),
        ("[servers.x]\nengine = 'tgi'", r"needs an engine: .*found 'tgi'"),
        ("[models.x]\ndtype = 'auto'", r"\[models.x\] needs a model"),
        ("[models.x]\nmodel = 'm'\n[models.x.vllm]\nk = 3", r"\[models.x.vllm\] has no key k"),
        ("[models.x]\nmodel = 'm'\nvllm = 3", r"\[models.x.vllm\] must be a table"),
        ("servers = 3", r"\[servers\] must be a table"),
        ("[cpu.tgi]\n", r"\[cpu\] has no key tgi"),
        ("[servers.x", "not valid TOML"),
    ],
)
def test_presets_that_are_wrong_say_where(tmp_path: Path, text: str, message: str) -> None:
    own = tmp_path / "x.toml"
    own.write_text(text)
    with pytest.raises(SettingsError, match=message) as refused:
        load(own)
    assert "\n" not in str(refused.value)


def test_presets_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read the presets .*nothing\.toml"):
        load(tmp_path / "nothing.toml")


def test_wrong_type_in_a_preset_is_told_by_its_key(tmp_path: Path) -> None:
    own = tmp_path / "x.toml"
    own.write_text("[servers.x]\nengine = 'vllm'\nport = 'high'\n")
    with pytest.raises(SettingsError, match="server x: port: Expected `int`, got `str`"):
        resolve("x", load(own), {})


def test_shipped_presets_use_only_known_keys() -> None:
    parse(presets_module.SHIPPED.read_text(), "presets.toml")


def test_shell_line_runs_as_written() -> None:
    made = built(
        "vllm-eagle3",
        simulate_accept_length=2.5,
        env={"HF_TOKEN": "hf_secret", "VLLM_LOGGING_LEVEL": "a b"},
        extra_args=[
            "--api-key",
            "sk-1",
            "--ssl-keyfile-password=pw",
            "--max-num-batched-tokens",
            "4",
        ],
    )
    line = shell_line(made)
    assert "\n" not in line
    assert "hf_secret" not in line
    assert "sk-1" not in line
    assert "pw" not in line.replace("***", "")
    words = shlex.split(line)
    env = ["HF_TOKEN=$HF_TOKEN", "VLLM_LOGGING_LEVEL=a b", "VLLM_SERVER_DEV_MODE=1"]
    assert words[:3] == env
    assert tuple(words[3:]) == redacted(made.argv)
    assert json.loads(words[words.index("--speculative-config") + 1])["method"] == "eagle3"
    assert words[-2:] == ["--max-num-batched-tokens", "4"]
    assert words[words.index("--api-key") + 1] == "***"


def test_redaction_leaves_eagles_tree_alone() -> None:
    assert redacted(("--total-token", "60")) == ("--total-token", "60")
    assert redacted(("--admin-api-key=x", "y")) == ("--admin-api-key=***", "y")


def test_printing_needs_no_engine() -> None:
    made = prepare_elsewhere("sglang-eagle3", load(), {"engine_python": "/no/python"})
    assert made.argv[0] == "/no/python"
    with pytest.raises(SettingsError, match="does not run"):
        prepare("sglang-eagle3", load(), {"engine_python": "/no/python"})


def test_urls_can_be_reached() -> None:
    assert built("vllm", host="0.0.0.0").url == "http://127.0.0.1:8000"
    assert built("vllm", host="::").url == "http://[::1]:8000"
    assert built("vllm", host="10.0.0.7").url == "http://10.0.0.7:8000"
