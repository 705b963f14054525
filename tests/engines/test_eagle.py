"""EAGLE's own code on the rigged pair, as a baseline and with EAGLE3: `make test-eagle`.

It is on no package index, so this runs where a clone of SafeAILab/EAGLE is named by the environment
variable EAGLE. The rest of the suite has a double of EaModel.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.helpers import bench_client, load, one_line, records
from tests.conftest import free_port
from tests.engines.prompts import PROMPTS, write_prompts
from tests.rig.expect import Rig, verify_blocks, walk
from tests.rig.expect import load as load_rig

CLONE = os.environ.get("EAGLE")
pytestmark = [
    pytest.mark.eagle,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not CLONE, reason="make test-eagle EAGLE=a clone of SafeAILab/EAGLE"),
]

PYTHON = Path(".engines/eagle/bin/python").absolute()
RIG = Path(".engines/rig")
PAIR = ("--model", RIG / "target", "--draft-model", RIG / "eagle3")
# A chain, which `verify_blocks` describes.
DRAFTS = 4
CHAIN = ("--spec-steps", DRAFTS, "--spec-topk", 1, "--spec-draft-tokens", DRAFTS + 1)
MAX_TOKENS = 160
ENV = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": CLONE or ""}


@pytest.fixture(scope="module")
def rig() -> Rig:
    return load_rig(RIG / "rig.json")


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_prompts(tmp_path_factory.mktemp("prompts") / "prompts.jsonl")


Arms = tuple[Path, Path, str]  # results of the baseline and of EAGLE3, and what was printed


def both_arms(results: Path, scenario: Path, temperature: float) -> Arms:
    done = bench_client(
        *("--server", "eagle-plain", "--server", "transformers-eagle3", "--concurrency", 1),
        *("--engine-python", PYTHON, *PAIR, *CHAIN, "--temperature", temperature),
        *("--max-tokens", MAX_TOKENS, "--scenario", scenario, "--port", free_port()),
        *("--results", results),
        timeout=500,
        **ENV,
    )
    assert done.returncode == 0, done.stderr
    plain, eagle = sorted(results.iterdir(), key=lambda path: "eagle3" in path.name)
    return plain, eagle, done.stdout


@pytest.fixture(scope="module")
def arms(scenario: Path, tmp_path_factory: pytest.TempPathFactory) -> Arms:
    return both_arms(tmp_path_factory.mktemp("eagle"), scenario, 0)


def last_prompt_token(record: Any) -> int:
    """A token that leads to the first one of the answer."""
    first: int = record["output_token_ids"][0]
    return first - 1


def test_both_arms_walk_the_known_path(arms: Arms, rig: Rig) -> None:
    for path in arms[:2]:
        kept = records(path)
        assert len(kept) == len(PROMPTS)
        for record in kept:
            assert record["outcome"] == "ok", record["failure"]
            assert record["finish_reason"] == "length"
            assert record["output_token_ids"] == walk(rig, last_prompt_token(record), MAX_TOKENS)
            assert record["token_count_source"] == "token_ids"


def test_an_event_is_a_verify_step_as_the_rig_has_it(arms: Arms, rig: Rig) -> None:
    plain, eagle = map(records, arms[:2])
    assert all(record["events"]["tokens"] == [1] * MAX_TOKENS for record in plain)
    for record in eagle:
        # Its first token, too, comes out of a verify step: one token more than engines need.
        steps = verify_blocks(rig, last_prompt_token(record), MAX_TOKENS + 1, DRAFTS)
        cut = sum(steps) - MAX_TOKENS
        assert record["events"]["tokens"] == [*steps[:-1], steps[-1] - cut]
        assert record["accept"]["verify_steps"] == len(steps)
        assert record["accept"]["accepted_tokens"] == sum(steps) - len(steps)
        assert record["accept"]["draft_tokens"] == DRAFTS * len(steps)


def test_sampling_with_a_certain_model_is_the_same(
    arms: Arms, scenario: Path, tmp_path: Path
) -> None:
    """The rig leaves nothing to chance, so rejection sampling accepts what greedy decoding does."""
    sampled = both_arms(tmp_path, scenario, 0.6)
    for greedy, drawn in zip(arms[:2], sampled[:2], strict=True):
        for one, other in zip(records(greedy), records(drawn), strict=True):
            assert one["output_sha256"] == other["output_sha256"]
            assert one["events"]["tokens"] == other["events"]["tokens"]
            assert one["accept"] == other["accept"]


def test_the_sources_of_the_accept_length_agree(arms: Arms) -> None:
    told = load(arms[1] / "summary.json")["speculation"]
    sources = told["accept_length_sources"]
    values = [sources[name] for name in ("client_events", "per_request", "metrics")]
    assert max(values) / min(values) - 1 < 0.02, sources
    assert told["by_language"]["en"] > 1.3 * told["by_language"]["zh"] > 1.3
    assert load(arms[0] / "summary.json")["speculation"] is None


def test_each_arm_is_what_it_was_asked_to_be(arms: Arms) -> None:
    for path, speculates in zip(arms[:2], (False, True), strict=True):
        server = load(path / "run.json")["server"]
        assert (server["engine"], server["unmet"]) == ("eagle", [])
        assert server["facts"]["speculates"] is speculates
        assert server["facts"]["dtype"] == "bfloat16"
        # The tiny pair: 8,192 places of 8 layers, keys and values of 2 heads of 64, 2 bytes each.
        assert server["memory"]["kv_cache_gib"] == pytest.approx(8192 * 8 * 2 * 2 * 64 * 2 / 2**30)
        assert 0 < server["memory"]["draft_weights_gib"] < server["memory"]["weights_gib"] < 0.1
        assert server["exit"] is None
        with pytest.raises(httpx.ConnectError):
            httpx.get(server["url"])


def test_the_comparison_explains_itself(arms: Arms) -> None:
    assert "comparison with eagle-plain" in arms[2]
    assert "each verify step costs" in arms[2]
    assert f"paired by prompt, {len(PROMPTS)} pairs" in arms[2]


def test_more_than_one_at_a_time_is_refused(tmp_path: Path) -> None:
    done = bench_client(
        *("--server", "transformers-eagle3", "--engine-python", PYTHON, *PAIR),
        *("--concurrency", 2, "--results", tmp_path),
        **ENV,
    )
    assert done.returncode == 2
    assert "its KV cache has batch size 1" in one_line(done)


def test_the_source_notes_own_line(scenario: Path) -> None:
    command = [
        *(PYTHON, "-m", "server_launchers.eagle_server", "--offline", "--prompts", scenario),
        *("--depth", DRAFTS - 1, "--top-k", 1, "--total-token", DRAFTS + 1),
        *(*PAIR, "--max-tokens", 60),
    ]
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env=os.environ | ENV,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(PROMPTS)
    form = r"Generation time: \d+\.\d+s for (\d+) tokens, speed: \d+\.\d+ tokens/s"
    assert all(re.search(form, line) for line in lines), done.stdout
