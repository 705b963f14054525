"""What the command line's options ask of the servers that it launches."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from bench_client.cli.launching import MOST_PLANNED, overrides, planned_concurrency
from server_launchers import presets
from server_launchers.given import check_given, unheeded
from server_launchers.launch import command
from server_launchers.presets import SettingsError, load
from server_launchers.resolve import resolve
from tests.cli.helpers import bench_client, folder, one_line, prompts
from tests.cli.helpers import load as load_json
from tests.conftest import free_port

NOT_GIVEN = dict.fromkeys(
    (
        *("model", "draft_model", "served_model_name", "port", "spec_steps", "spec_topk"),
        *("spec_draft_tokens", "simulate_accept_length", "engine_python", "concurrency"),
        *("request_rate", "max_concurrency"),
    )
)


@pytest.fixture(autouse=True)
def no_user_presets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(presets, "USERS", tmp_path / "none.toml")


def given(tmp_path: Path, count: int = 11, **options: Any) -> dict[str, Any]:
    scenario = str(prompts(tmp_path / "p.jsonl", count))
    return {**NOT_GIVEN, "launch_args": (), "scenario": scenario, "repeat": 3, **options}


def argv(name: str, asked: dict[str, Any]) -> tuple[str, ...]:
    return command(resolve(name, load(), overrides(asked))).argv


def after(words: tuple[str, ...], flag: str) -> str:
    return words[words.index(flag) + 1]


def test_an_open_loop_without_a_cap_has_room_for_all_alike(tmp_path: Path) -> None:
    """Left alone, SGLang caps EAGLE3 at 48 requests and has graphs for fewer still."""
    asked = given(tmp_path, 60, request_rate=9.0)
    for name in ("sglang", "sglang-eagle3"):
        assert after(argv(name, asked), "--max-running-requests") == "60"
        assert after(argv(name, asked), "--cuda-graph-max-bs-decode") == "60"
    for name in ("vllm", "vllm-eagle3"):
        assert after(argv(name, asked), "--max-num-seqs") == "60"
    assert "--continuous-batching" in argv("transformers", asked)
    with pytest.raises(SettingsError, match=r"one request at a time.*--max-concurrency 1"):
        argv("transformers-eagle3", asked)


def test_what_is_planned_for(tmp_path: Path) -> None:
    assert planned_concurrency(given(tmp_path)) == 1
    assert planned_concurrency(given(tmp_path, concurrency=4)) == 4
    assert planned_concurrency(given(tmp_path, request_rate=2.0)) == 11  # of one repeat
    assert planned_concurrency(given(tmp_path, request_rate=2.0, max_concurrency=5)) == 5
    many = given(tmp_path, MOST_PLANNED + 1, request_rate=2.0)
    assert planned_concurrency(many) == MOST_PLANNED == 256
    assert planned_concurrency({"concurrency": 2}) == 2  # of `launch`, which has no load


def test_print_says_for_which_engine(tmp_path: Path) -> None:
    done = bench_client("launch", "vllm-eagle3", "--print", "--presets", own(tmp_path))
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 1
    assert re.match(r"for (the newest vllm that is known, on CUDA|vllm \d)", one_line(done))


def own(tmp_path: Path) -> Path:
    """No presets of the user's, who may run these tests on a node of their own."""
    path = tmp_path / "own.toml"
    path.write_text("")
    return path


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--launch-arg=--port=18399",), "use --port"),
        (("--launch-arg=--log-level=warning",), "use --log-level=info, or leave it out"),
        (("--server", "sglang-eagle3", "--spec-topk", 4), "--spec-draft-tokens"),
    ],
)
def test_what_cannot_be_is_one_line_before_any_launch(
    tmp_path: Path, options: tuple[object, ...], said: str
) -> None:
    more = ("--results", tmp_path / "r", "--presets", own(tmp_path))
    done = bench_client("run", "--server", "sim", *options, *more)
    assert done.returncode == 2
    assert said in one_line(done)
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("launch", "sglang", "--print", "--engine-python", "/none/p"),
            "/none/p: there is no such",
        ),
        (
            ("run", "--server", "sim", "--engine-python", "/none/p"),
            "/none/p: there is no such prog",
        ),
        (("run", "--server", "sim", "--engine-python", sys.executable), "client's own Python"),
        (("launch", "sglang", "--print", "--model", "Qwen3-8B"), "did you mean qwen3-8b?"),
        (("launch", "sglang-eagle3", "--print", "--model", "qwen3-8B"), "did you mean qwen3-8b?"),
    ],
)
def test_what_no_server_would_heed_is_refused(
    tmp_path: Path, arguments: tuple[object, ...], said: str
) -> None:
    done = bench_client(*arguments, "--presets", own(tmp_path))
    assert done.returncode == 2
    assert said in one_line(done)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("servers", "option", "said"),
    [
        (("sglang", "sglang-eagle3"), {"spec_steps": 3, "spec_draft_tokens": 4}, None),
        (("sglang", "vllm-eagle3"), {"draft_model": "X/Y"}, None),
        (("eagle-plain",), {"draft_model": "X/Y"}, None),
        (("sglang",), {}, None),
        (
            ("sglang",),
            {"draft_model": "X/Y", "spec_steps": 5},
            "sglang does not speculate: without effect: --draft-model, --spec-steps",
        ),
        (
            ("sim", "vllm"),
            {"spec_topk": 2},
            "sim, vllm do not speculate: without effect: --spec-topk",
        ),
        (
            ("eagle-plain",),
            {"simulate_accept_length": 2.0},
            "eagle-plain does not speculate: without effect: --simulate-accept-length",
        ),
    ],
)
def test_draft_options_that_do_nothing_are_told(
    tmp_path: Path, servers: tuple[str, ...], option: dict[str, Any], said: str | None
) -> None:
    """Not refused: scripts give all arms the same options."""
    asked = overrides(given(tmp_path, **option))
    check_given(servers, load(), asked)
    assert unheeded(servers, load(), asked) == said
    for name in servers:
        resolve(name, load(), asked)


def test_they_are_told_on_stderr_alone() -> None:
    done = bench_client("launch", "sim", "--print", "--spec-steps", 3)
    assert done.returncode == 0
    assert "sim does not speculate: without effect: --spec-steps" in done.stderr
    assert "spec" not in done.stdout


def test_a_folder_may_be_named_like_a_preset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Qwen3-8B").mkdir()
    assert "Qwen3-8B" in argv("vllm", given(tmp_path, model="Qwen3-8B"))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("--draft-model", "X/Y"), ("--port", 9), ("--spec-steps", 3), ("--spec-topk", 1)),
        *(("--spec-draft-tokens", 4), ("--simulate-accept-length", 2), ("--launch-arg", "-x")),
        *(("--engine-python", sys.executable), ("--presets", "p.toml")),
    ],
)
def test_nothing_is_launched_by_url(tmp_path: Path, option: str, value: object) -> None:
    url = ("--url", "http://127.0.0.1:1", "--results", tmp_path / "r")
    done = bench_client("run", *url, option, value)
    assert done.returncode == 2
    assert f"{option} goes with --server, not with --url" in done.stderr
    assert not (tmp_path / "r").exists()


def test_the_commits_of_target_and_head_are_in_run_json(tmp_path: Path) -> None:
    for name, commit in (("me--target", "a" * 40), ("me--head", "b" * 40)):
        ref = tmp_path / "hub" / f"models--{name}" / "refs" / "main"
        ref.parent.mkdir(parents=True)
        ref.write_text(commit)
    done = bench_client(
        *("run", "--server", "sim-eagle3", "--model", "me/target", "--draft-model", "me/head"),
        *("--port", free_port(), "--scenario", prompts(tmp_path / "p.jsonl"), "--no-calibrate"),
        *("--max-tokens", 4, "--warmup", 0, "--quiet", "--results", tmp_path / "r"),
        HF_HUB_CACHE=str(tmp_path / "hub"),
    )
    facts = load_json(folder(tmp_path / "r") / "run.json")["server"]["facts"]
    assert (facts["revision"], facts["draft_revision"]) == ("a" * 40, "b" * 40), done.stderr
