"""Gates as a CI job sees them: the exit code, and percentiles."""

import json
from pathlib import Path

from tests.cli.helpers import bench_client, load

NOTE = Path(__file__).parents[1] / "fixtures" / "notes" / "qwen3-8b-serial-prompts.txt"


def vllm_runs(results: Path) -> list[Path]:
    done = bench_client("import", NOTE, "--results", results, "--json")
    assert done.returncode == 0, done.stderr
    paths = [Path(run["path"]) for run in json.loads(done.stdout)["runs"]]
    return [path for path in paths if "vllm" in path.name]


def test_runs_that_may_not_be_compared_fail(tmp_path: Path) -> None:
    runs = vllm_runs(tmp_path)
    for path, model in zip(runs, ("Qwen3-8B", "Qwen3-4B"), strict=True):
        header = load(path / "run.json")
        header["server"]["model"] = model
        (path / "run.json").write_text(json.dumps(header))
    done = bench_client("compare", *runs, "--gate", "tps_e2e >= -3%")
    assert done.returncode == 1
    assert "can't tell tps_e2e >= -3%: the models differ" in done.stdout
    assert bench_client("compare", *runs).returncode == 0


def test_a_percentile_gates(tmp_path: Path) -> None:
    runs = vllm_runs(tmp_path)
    gates = ("tps_e2e.p50 >= 1", "tps_e2e.p99 >= 1")
    asked = [part for gate in gates for part in ("--gate", gate)]
    done = bench_client("compare", *runs, *asked)
    assert done.returncode == 0, done.stderr
    assert "passed tps_e2e.p50 >= 1: +" in done.stdout
    assert "can't tell tps_e2e.p99 >= 1: p99 needs 100 values of each run" in done.stdout
