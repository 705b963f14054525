"""doctor on the command line: what it prints and returns."""

import sys
from pathlib import Path

import pytest

from tests.cli.helpers import bench_client, one_line
from tests.conftest import free_port


def test_brackets_are_printed_as_they_are(tmp_path: Path) -> None:
    """Rich would take them for its markup."""
    bare = tmp_path / "[v1]" / "python"
    bare.parent.mkdir()
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    done = bench_client("doctor", "transformers", "--engine-python", bare, "--results", tmp_path)
    assert done.returncode == 3
    assert f"not in {bare} " in " ".join(done.stdout.split())
    assert "'transformers[serving]'" in done.stdout


def test_without_names_it_only_tells() -> None:
    done = bench_client("doctor", "--engine-python", "/no/python")
    assert done.returncode == 0
    assert "missing" in done.stdout


def test_a_named_server_that_can_start() -> None:
    assert bench_client("doctor", "sim", "sim-eagle3", "--port", free_port()).returncode == 0


@pytest.mark.parametrize("port", ['"abc"', "99999", "true"])
def test_a_bad_preset_is_one_line(tmp_path: Path, port: str) -> None:
    path = tmp_path / "presets.toml"
    path.write_text(f"[engines.vllm]\nport = {port}\n")
    done = bench_client("doctor", "--presets", path)
    assert done.returncode == 2
    assert "[engines.vllm] port: " in one_line(done)


def test_a_results_folder_that_a_run_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for results in (tmp_path / "file", "/proc/none"):
        done = bench_client("doctor", "sim", "--port", free_port(), "--results", results)
        assert done.returncode == 3
        told = " ".join(done.stdout.split())
        refused, advice = f"cannot write results to {results}: ", "give another folder by --results"
        assert f"disk for results unusable {refused}" in told
        assert f"-> {advice}" in told
        ran = bench_client("run", "--server", "sim", "--port", free_port(), "--results", results)
        assert refused in one_line(ran)
        assert advice in one_line(ran)
        assert bench_client("doctor", "--results", results).returncode == 0


def test_it_leaves_no_folder_behind(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for results in (tmp_path / "not" / "yet", tmp_path / "there"):
        done = bench_client("doctor", "sim", "--port", free_port(), "--results", results)
        assert done.returncode == 0, done.stdout
    assert list(tmp_path.rglob("*")) == [tmp_path / "there"]


def test_a_long_path_is_in_one_piece(tmp_path: Path) -> None:
    results = tmp_path / ("deep" * 20) / ("deeper" * 20)
    done = bench_client("doctor", "sim", "--port", free_port(), "--results", results)
    assert str(results) in done.stdout
