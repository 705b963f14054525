"""`report`: which values of its options are runs, and which forms go together."""

import json
from pathlib import Path

import pytest

from bench_client.records import Run
from bench_client.run.fold import save_run
from tests.cli.helpers import bench_client
from tests.factories import header, record


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two results folders of one answer each, the second of two tokens more."""
    results = tmp_path_factory.mktemp("results")
    for tokens in (4, 6):
        save_run(Run(header=header(), records=(record(output_tokens=tokens),)), results)
    first, second = sorted(results.iterdir(), key=lambda path: (len(path.name), path.name))
    return str(first), str(second)


def generated(printed: str) -> list[str]:
    """Each block's count of tokens."""
    return [line.split()[-1] for line in printed.splitlines() if "generated tokens:" in line]


def test_a_folder_after_sglang_is_a_run(runs: tuple[str, str]) -> None:
    first, second = runs
    for arguments in (
        ("--sglang", first, second),
        (first, "--sglang", second),
        (*runs, "--sglang"),
    ):
        done = bench_client("report", *arguments, "--strict")
        assert done.returncode == 0, done.stderr
        assert generated(done.stdout) == ["4", "6"], arguments
        assert "P95 E2E Latency" in done.stdout
    old = bench_client("report", "--sglang", "0.5.3", second)
    assert generated(old.stdout) == ["6"]
    assert "P95 E2E Latency" not in old.stdout


@pytest.mark.parametrize("value", ["no-such-folder", "0.1"])
def test_neither_a_folder_nor_a_version_is_said_to_be_neither(
    value: str, runs: tuple[str, str]
) -> None:
    for arguments in (("--sglang", value), (runs[0], "--sglang", value)):
        done = bench_client("report", *arguments)
        assert done.returncode == 2
        [said] = [line for line in done.stderr.splitlines() if line.startswith("Error")]
        assert f"there is no folder {value}, and" in said
        assert "0.5.23" in said or "0.4.4" in said
        assert not done.stdout


@pytest.mark.parametrize("form", ["--html", "--markdown", "--json"])
@pytest.mark.parametrize("foreign", ["--sglang", "--sglang-jsonl", "--vllm-json"])
def test_our_forms_do_not_go_with_other_tools(
    form: str, foreign: str, runs: tuple[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "file"
    values = () if foreign == "--sglang" else (file,)
    done = bench_client("report", runs[0], foreign, *values, form)
    assert done.returncode == 2
    said = done.stderr.splitlines()[-1]
    assert said == f"Error: {form} does not go with {foreign}: report once for each"
    assert not done.stdout
    assert not file.exists()


def test_two_of_our_forms_are_refused(runs: tuple[str, str]) -> None:
    done = bench_client("report", runs[0], "--json", "--html")
    assert done.returncode == 2
    assert "--html does not go with --json" in done.stderr.splitlines()[-1]


def test_other_tools_forms_go_together(runs: tuple[str, str], tmp_path: Path) -> None:
    lines, file = tmp_path / "r.jsonl", tmp_path / "r.json"
    done = bench_client(
        *("report", "--sglang", runs[0], "--sglang-jsonl", lines, "--vllm-json", file)
    )
    assert done.returncode == 0, done.stderr
    assert generated(done.stdout) == ["4"]
    assert json.loads(lines.read_text())["total_output_tokens"] == 4
    assert json.loads(file.read_text())["total_output_tokens"] == 4
