"""A simulated server is told as that also where it was not launched by this command."""

from pathlib import Path

import pytest

from tests.cli.helpers import bench_client, folder, load, prompts
from tests.conftest import StartSim


@pytest.mark.parametrize("flavour", ["vllm", "sglang"])
def test_a_simulated_server_at_a_url(flavour: str, tmp_path: Path, start_sim: StartSim) -> None:
    done = bench_client(
        *("--url", start_sim("--fixed", "5:1", "--flavour", flavour), "--max-tokens", 8),
        *("--scenario", prompts(tmp_path / "p.jsonl"), "--results", tmp_path / "r"),
        "--no-calibrate",
    )
    assert done.returncode == 0, done.stderr
    server = load(folder(tmp_path / "r") / "run.json")["server"]
    assert (server["engine"], server["simulated"]) == ("sim", True)
    assert "its figures say nothing about a GPU" in done.stdout
    doubts = load(folder(tmp_path / "r") / "summary.json")["doubts"]
    assert {"simulated": "note"}.items() <= {
        each["code"]: each["severity"] for each in doubts
    }.items()
