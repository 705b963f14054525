"""Real `transformers serve` on the rigged model, whose greedy answers are known.

It runs in vLLM's environment, which has all that it needs (`make engines`). Its stream has neither
token ids nor a running count: the rig's tokenizer says what its text is made of.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server_launchers.launch import prepare
from server_launchers.presets import load as load_presets
from server_launchers.process import ServerProcess
from tests.cli.helpers import bench_client, folder, load, records
from tests.conftest import free_port
from tests.engines.prompts import PROMPTS, write_prompts
from tests.rig.expect import load as load_rig
from tests.rig.expect import walk

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

PYTHON = Path(".engines/vllm/bin/python")
RIG = Path(".engines/rig")
MAX_TOKENS = 64
# A machine with other work: with a thread a core each step waits for the slowest. No download
# cache: /v1/models then fails, as it does for whoever serves a folder.
ENV = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HF_HOME": ".engines/none"}
ENCODE = """
import json, sys, tokenizers
tokenizer = tokenizers.Tokenizer.from_file(sys.argv[1])
print(json.dumps([tokenizer.encode(text).ids for text in json.load(sys.stdin)]))
"""


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_prompts(tmp_path_factory.mktemp("transformers") / "prompts.jsonl")


@pytest.fixture(scope="module")
def plain(scenario: Path) -> Path:
    """The results folder of a whole run, one request at a time."""
    done = bench_client(
        *("--server", "transformers", "--engine-python", PYTHON, "--model", RIG / "target"),
        *("--concurrency", 1, "--temperature", 0, "--max-tokens", MAX_TOKENS, "--save-text"),
        *("--scenario", scenario, "--port", free_port(), "--results", scenario.parent / "plain"),
        timeout=200,
        **ENV,
    )
    assert done.returncode == 0, done.stderr
    return folder(scenario.parent / "plain")


@pytest.fixture(scope="module")
def batching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that answers two requests at once."""
    given = {
        "engine_python": str(PYTHON),
        "model": str(RIG / "target"),
        "concurrency": 2,
        "port": free_port(),
        "env": ENV,
    }
    command = prepare("transformers", load_presets(), given)
    with ServerProcess.start(command, tmp_path_factory.mktemp("served") / "server.log") as server:
        server.wait_ready(120)
        yield command.url


def ask(url: str, results: Path, *more: object) -> Path:
    """The results folder of a run against a server that is up already."""
    done = bench_client(
        *("--url", url, "--model", RIG / "target", "--max-tokens", MAX_TOKENS, "--save-text"),
        *("--results", results, "--no-calibrate", *more),
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return folder(results)


def ids(*texts: str) -> list[list[int]]:
    """The token ids of each text, by the tokenizer that the server has too."""
    command = [PYTHON, "-c", ENCODE, RIG / "target/tokenizer.json"]
    done = subprocess.run(
        command, input=json.dumps(texts), capture_output=True, text=True, check=True, timeout=60
    )
    encoded: list[list[int]] = json.loads(done.stdout)
    return encoded


def check_answers(kept: list[Any], *, tokens: int = MAX_TOKENS, reason: str = "length") -> None:
    """Every answer is the rig's walk from the prompt's last token, counted exactly."""
    rig = load_rig(RIG / "rig.json")
    prompts = [list(PROMPTS.values())[record["prompt_index"]] for record in kept]
    asked, answered = ids(*prompts), ids(*(record["output_text"] for record in kept))
    for record, prompt, answer in zip(kept, asked, answered, strict=True):
        assert record["outcome"] == "ok", record["failure"]
        assert record["finish_reason"] == reason
        assert answer == walk(rig, prompt[-1], tokens)
        assert record["input_tokens"] == len(prompt)
        assert record["output_tokens"] == len(answer)
        assert record["token_count_source"] == "final_usage"
        assert record["events"]["tokens"] == [1] * tokens
        assert record["first_token_ns"] == record["events"]["at_ns"][0]


def test_every_answer_is_the_known_one_and_counted_exactly(plain: Path) -> None:
    kept = records(plain)
    check_answers(kept)
    assert {record["stamps"] for record in kept} == {"kernel"}
    echo = "the parser will process the entire prefix"  # of which nothing is left in the answers
    assert echo in (plain / "server.log").read_text()
    summary = load(plain / "summary.json")
    assert summary["requests"] == {"ok": len(PROMPTS), "failed": 0, "failures": {}}
    assert summary["output_tokens"] == len(PROMPTS) * MAX_TOKENS


def test_the_arm_is_what_it_was_asked_to_be(plain: Path) -> None:
    server = load(plain / "run.json")["server"]
    assert server["engine"] == "transformers"
    assert server["engine_version"] == "5.19.0"
    assert server["unmet"] == []
    assert server["facts"] == {
        "engine_version": "5.19.0",
        "model": str(RIG / "target"),
        "dtype": "bfloat16",
        "context_length": 8192,
        "speculates": False,
        "samples": False,
    }
    summary = load(plain / "summary.json")
    assert (server["speculative"], summary["speculation"]) == (None, None)
    doubts = {doubt["code"]: doubt["severity"] for doubt in summary["doubts"]}
    assert summary["verdict"] != "invalid"
    assert doubts["estimated_token_counts"] == "note"
    assert not doubts.keys() & {"plain_arm_speculates", "unknown_token_counts"}


def test_nothing_of_it_is_left(plain: Path) -> None:
    log = (plain / "server.log").read_text()
    (pid,) = re.findall(r"Started server process \[(\d+)\]", log)
    assert f"Finished server process [{pid}]" in log
    assert not Path("/proc", pid).exists()


def test_two_at_once_sampled_and_without_an_end(
    batching: str, scenario: Path, tmp_path: Path
) -> None:
    path = ask(
        *(batching, tmp_path, "--scenario", scenario, "--concurrency", 2),
        *("--temperature", 0.6, "--ignore-eos"),
    )
    check_answers(records(path))
    summary = load(path / "summary.json")
    assert summary["concurrency"]["peak"] == 2
    assert summary["concurrency"]["decoding_mean"] > 1.5
    assert load(path / "run.json")["server"]["engine"] == "transformers"


def test_the_end_of_a_sequence_ends_the_answer(
    batching: str, scenario: Path, tmp_path: Path
) -> None:
    """A token of the known walk is declared to be the end: it is counted, and the last."""
    first = tmp_path / "first.jsonl"
    first.write_text(scenario.read_text().partition("\n")[0] + "\n")
    ((*_, last),) = ids(PROMPTS["river"])
    end = walk(load_rig(RIG / "rig.json"), last, 20)[-1]
    extra = json.dumps({"generation_config": json.dumps({"eos_token_id": end})})
    path = ask(batching, tmp_path / "results", "--scenario", first, "--extra-body", extra)
    check_answers(records(path), tokens=20, reason="stop")


def test_completions_have_no_preamble(batching: str, scenario: Path, tmp_path: Path) -> None:
    path = ask(
        batching, tmp_path, "--scenario", scenario, "--api", "completions", "--concurrency", 2
    )
    check_answers(records(path))
