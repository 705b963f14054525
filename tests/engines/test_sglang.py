"""Real SGLang for CPU: plain decoding, which is all that it does there."""

import json
from pathlib import Path

import pytest

from tests.cli.helpers import bench_client, folder, load, records
from tests.conftest import free_port

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

RIG = Path(".engines/rig")
MAX_TOKENS = 64
PROMPTS = {
    "en": "tell me of the river and the stone",
    "zh": "请说说河流和石头",
    "en2": "count the birds",
}


def _prompts(path: Path) -> Path:
    lines = [json.dumps({"id": name, "prompt": text}) for name, text in PROMPTS.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_plain_arm_is_launched_measured_and_known(tmp_path: Path) -> None:
    done = bench_client(
        *("--server", "sglang", "--model", RIG / "target", "--temperature", 0),
        *("--max-tokens", MAX_TOKENS, "--scenario", _prompts(tmp_path / "p.jsonl")),
        *("--port", free_port(), "--results", tmp_path / "results", "--no-calibrate"),
        *("--launch-arg=--context-length", "--launch-arg=4096"),
        timeout=800,
    )
    assert done.returncode == 0, done.stderr
    path = folder(tmp_path / "results")
    kept = records(path)
    assert len(kept) == len(PROMPTS)

    for record in kept:
        assert record["outcome"] == "ok"
        assert record["output_tokens"] == MAX_TOKENS == sum(record["events"]["tokens"])
        assert record["token_count_source"] == "usage_delta"
        assert record["stamps"] == "kernel"
    server = load(path / "run.json")["server"]
    assert server["engine"] == "sglang"
    assert server["engine_version"] == "0.5.23"
    assert server["speculative"] is None
    assert server["facts"]["speculates"] is False
    assert server["facts"]["attention_backend"] == "torch_native"
    grown = {
        name: server["counters_after"][name] - server["counters_before"][name]
        for name in ("sglang:generation_tokens_total", "sglang:num_requests_total")
    }
    assert list(grown.values()) == [len(PROMPTS) * MAX_TOKENS, len(PROMPTS)]
    assert load(path / "summary.json")["speculation"] is None
