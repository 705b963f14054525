"""The main job on real vLLM for CPU: both arms of the rigged pair, whose answers are known.

Built by `make engines`. The rig's greedy output is a known walk through token ids, and its head
misses a known set of them, so that the accept length of each prompt is known in advance.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from bench_client.plan.scenario import load_scenario
from tests.cli.helpers import bench_client, load, records
from tests.conftest import free_port
from tests.rig.expect import Rig, expected_steps, language_of, walk
from tests.rig.expect import load as load_rig

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

RIG = Path(".engines/rig")
DRAFTS = 3
MAX_TOKENS = 128


@pytest.fixture(scope="module")
def rig() -> Rig:
    return load_rig(RIG / "rig.json")


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """Results folders of the plain and the EAGLE3 arm, and what was printed."""
    folder = tmp_path_factory.mktemp("vllm")
    done = bench_client(
        *("--server", "vllm", "--server", "vllm-eagle3", "--concurrency", 1),
        *("--model", RIG / "target", "--draft-model", RIG / "eagle3"),
        *("--spec-steps", DRAFTS, "--temperature", 0, "--max-tokens", MAX_TOKENS),
        *("--scenario", _shortened(folder), "--port", free_port(), "--results", folder / "results"),
        timeout=800,
    )
    assert "Traceback" not in done.stderr, done.stderr
    found = sorted((folder / "results").iterdir(), key=lambda path: len(path.name))
    assert len(found) == 2, done.stderr
    return found[0], found[1], done.stdout


def _shortened(folder: Path) -> Path:
    """The eleven prompts' last lines: the rig has a context of 4,096 small tokens."""
    lines = [
        {"id": each.id, "language": each.language, "prompt": each.messages[-1].content[-300:]}
        for each in load_scenario("eleven-prompts").prompts
    ]
    path = folder / "eleven.jsonl"
    path.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n")
    return path


def _entry(rig: Rig, first_token: int) -> int:
    """A token whose successor is the first one of an answer."""
    language = language_of(rig, first_token)
    return language.first + (language.place(first_token) - 1) % language.cycle


def _expected_accept_length(rig: Rig, kept: list[Any]) -> float:
    """Tokens that verify steps yield over those steps: the first token comes from the prefill."""
    steps = [
        expected_steps(rig, _entry(rig, record["output_token_ids"][0]), MAX_TOKENS, DRAFTS)
        for record in kept
    ]
    return len(kept) * (MAX_TOKENS - 1) / sum(steps)


def test_every_request_ends_well_and_is_counted_exactly(arms: tuple[Path, Path, str]) -> None:
    for path in arms[:2]:
        kept = records(path)
        assert len(kept) == 11
        summary = load(path / "summary.json")
        assert summary["requests"] == {"ok": 11, "failed": 0, "failures": {}}
        for record in kept:
            assert record["finish_reason"] == "length"
            assert record["token_count_source"] == "token_ids"
            assert record["stamps"] == "kernel"
            assert sum(record["events"]["tokens"]) == record["output_tokens"] == MAX_TOKENS
        counters = load(path / "run.json")["server"]
        name = "vllm:generation_tokens_total"
        grown = counters["counters_after"][name] - counters["counters_before"][name]
        assert grown == 11 * MAX_TOKENS == summary["output_tokens"]


def test_both_arms_walk_the_known_path(arms: tuple[Path, Path, str], rig: Rig) -> None:
    plain, eagle = records(arms[0]), records(arms[1])
    assert [r["output_token_ids"] for r in plain] == [r["output_token_ids"] for r in eagle]
    languages = [each.language for each in load_scenario("eleven-prompts").prompts]
    names = {"en": "English", "zh": "Chinese"}
    for record in plain:
        ids = record["output_token_ids"]
        assert ids == walk(rig, _entry(rig, ids[0]), MAX_TOKENS)
        spoken = names[languages[record["prompt_index"]] or "en"]
        assert language_of(rig, ids[0]).name.lower() in {spoken.lower(), spoken[:2].lower()}


def test_the_sources_of_the_accept_length_agree_with_the_rig(
    arms: tuple[Path, Path, str], rig: Rig
) -> None:
    told = load(arms[1] / "summary.json")["speculation"]
    sources = told["accept_length_sources"]
    values = [sources[name] for name in ("client_events", "per_request", "metrics")]
    assert max(values) / min(values) - 1 < 0.01, sources
    expected = _expected_accept_length(rig, records(arms[1]))
    for value in (*values, told["accept_length"]):
        assert value == pytest.approx(expected, rel=0.02)
    assert told["by_language"]["en"] > 1.3 * told["by_language"]["zh"] > 1.3


def test_each_arm_is_what_it_was_asked_to_be(arms: tuple[Path, Path, str]) -> None:
    for path, speculates in zip(arms[:2], (False, True), strict=True):
        server = load(path / "run.json")["server"]
        assert server["engine"] == "vllm"
        assert server["engine_version"].startswith("0.")
        assert server["unmet"] == []
        assert server["facts"]["speculates"] is speculates
        assert (server["speculative"] is not None) is speculates
        assert server["facts"]["kv_tokens"] > 0
    assert load(arms[0] / "summary.json")["speculation"] is None
    codes = {doubt["code"] for path in arms[:2] for doubt in load(path / "summary.json")["doubts"]}
    assert not codes & {"plain_arm_speculates", "spec_arm_does_not", "accept_sources_disagree"}


def test_the_comparison_explains_itself(arms: tuple[Path, Path, str]) -> None:
    printed = arms[2]
    assert "comparison with vllm" in printed
    assert "each verify step costs" in printed
    assert "paired by prompt, 11 pairs" in printed
    assert "all 11 greedy answers are the same" in printed
