"""The program as its users start it, in a process of its own, with stand-ins for the libraries."""

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from msgspec import structs

from bench_client.imports.offline import timings
from bench_client.records import Memory
from server_launchers import eagle
from server_launchers.facts import from_sglang_info, unmet
from server_launchers.memory import from_eagle_info
from server_launchers.process import ServerProcess
from server_launchers.settings import LaunchSettings
from tests.conftest import free_port

from .clone import write_clone

ROOT = Path(__file__).parents[3]
ARMS = {
    "chain": LaunchSettings(
        name="eagle3",
        engine="eagle",
        model="target",
        draft_model="head",
        speculative=True,
        dtype="bfloat16",
        context_length=512,
        spec_steps=4,
        spec_topk=1,
        spec_draft_tokens=5,
    ),
    "tree": LaunchSettings(
        name="eagle3",
        engine="eagle",
        model="target",
        draft_model="head-with-embedding",
        speculative=True,
        served_model_name="short",
        spec_steps=8,
        spec_topk=10,
        spec_draft_tokens=60,
    ),
    "plain": LaunchSettings(name="eagle", engine="eagle", model="target", draft_model="head"),
}


def path_with(*folders: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}


def started(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program run to its end."""
    return subprocess.run(
        [sys.executable, "-m", "server_launchers.eagle_server", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        cwd=ROOT,
        env=path_with(clone),
    )


@pytest.mark.parametrize("arm", ARMS)
def test_what_the_launcher_starts_is_what_was_asked_for(tmp_path: Path, arm: str) -> None:
    clone = write_clone(tmp_path / "clone")
    other_python = Path(sys.executable).with_name("python3" if arm == "chain" else "python")
    command = eagle.command(
        structs.replace(
            ARMS[arm],
            port=free_port(),
            engine_python=str(other_python),
            env={"PYTHONPATH": os.pathsep.join(map(str, (clone, ROOT)))},
        )
    )
    with ServerProcess.start(command, tmp_path / "server.log") as server:
        server.wait_ready(timeout_s=30)
        info = httpx.get(command.url + "/server_info").json()
        answer = httpx.post(
            command.url + "/v1/completions",
            json={"prompt": "x", "temperature": 0, "model": command.served_model_name},
        ).json()
    facts = from_sglang_info(info)
    assert facts.speculates is (arm != "plain")
    assert unmet(command.speculative_asked, facts) == ()
    assert answer["choices"][0]["text"] == "verify 海水"
    places = 512 if arm == "chain" else 4096  # as asked, or the model's own
    assert from_eagle_info(info) == Memory(  # a plain arm holds the head too
        weights_gib=1.5,
        draft_weights_gib=0.125,
        kv_cache_gib=places / 2**13,
        kv_cache_tokens=places,
    )


def test_a_clone_that_is_named_is_found(tmp_path: Path) -> None:
    libraries = write_clone(tmp_path / "libraries", "eagle")
    clone = write_clone(tmp_path / "clone", "torch", "transformers")
    given = ("--model", "m", "--draft-model", "head", "--top-k", "1", "--total-token", "9")
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "a"}\n\n{"messages": [{"role": "user", "content": "b"}]}\n')
    offline = ("--offline", "--prompts", str(prompts), "--max-tokens", "100")
    done = started(libraries, *given, *offline, "--eagle-path", str(clone))
    assert done.returncode == 0, done.stderr
    # 13 bytes and an end token come in steps of 1 and 4: 15 tokens, as eagenerate counts them.
    assert [line.tokens for line in timings(done.stdout)] == [15, 15]
    assert len(done.stdout.splitlines()) == 2
    other = started(libraries, *given, *offline, "--eagle-path", str(libraries))
    assert "is no clone of EAGLE: it has no eagle/model/ea_model.py" in other.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--draft-model", "head-of-another-layout"), "2 weights are missing (fc.weight, midlayer"),
        (("--model", "missing"), "missing is not a local folder and is not a valid model"),
        (("--total-token", "120", "--top-k", "1"), "top-k 1 has 2 to 9 tokens, not 120"),
        (("--total-token", "-1"), "not -1: change --total-token, --depth or --top-k"),
        (("--max-length", "5000"), "--max-length 5000 is above the model's own 4096 positions"),
        (("--max-length", "70"), "--max-length 70 is not above the 70 of the tree"),
        (("--draft-model", "./no-head"), "--draft-model ./no-head: there is no such folder"),
        (("--model", "/dev"), "/dev has no model.safetensors.index.json"),
        (("--depth", "-1"), "--depth must be at least 0"),
        (("--offline",), "--offline needs --prompts FILE"),
        (("--offline", "--prompts", "no-such-file"), "No such file or directory: 'no-such-file'"),
        (("--offline", "--prompts", "/dev/null"), "/dev/null holds no prompt"),
    ],
)
def test_what_cannot_be_served_is_told_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    given = ("--model", "m", "--draft-model", "head", "--port", str(free_port()))
    done = started(write_clone(tmp_path), *given, *arguments)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("eagle_server: error: ")
    assert message in done.stderr


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        ("eagle", "there is no EAGLE here: clone SafeAILab/EAGLE and name it by --eagle-path"),
        ("transformers", "EAGLE needs transformers: install it here"),
        ("torch", "EAGLE needs torch: install it here"),
    ],
)
def test_what_is_not_installed_is_named(tmp_path: Path, left_out: str, message: str) -> None:
    clone = write_clone(tmp_path, left_out)
    done = started(clone, "--model", "m", "--draft-model", "head", "--port", str(free_port()))
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert message in done.stderr


def test_a_line_that_is_no_prompt_is_named(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "a"}\n{"text": "b"}\n')
    done = started(
        write_clone(tmp_path / "clone"),
        *("--model", "m", "--draft-model", "head", "--offline", "--prompts", str(prompts)),
    )
    assert "prompts.jsonl, line 2: messages must be a list" in done.stderr
    assert done.stdout == ""
