"""Cells are told apart: two matrices at once, files that change, servers that leave something."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import free_port
from tests.gpu_node.matrix import MATRIX, environment, folders, header, matrix, rows, small

NVML = Path(__file__).parents[1] / "run" / "nvml_double"


def command(home: Path, name: str, text: str) -> str:
    """A PATH on which `name` is this shell script."""
    tools = home / "tools"
    tools.mkdir(exist_ok=True)
    (tools / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
    (tools / name).chmod(0o755)
    return f"{tools}{os.pathsep}{environment()['PATH']}"


@contextmanager
def started(cwd: Path, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """A matrix in the background; ended in order."""
    with (cwd / f"log-{settings.get('MAX_TOKENS')}").open("wb") as output:
        process = subprocess.Popen(
            [MATRIX], cwd=cwd, env=environment(**settings), stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=60)


def until_measuring(results: Path) -> None:
    deadline = time.monotonic() + 40
    while not list(results.glob("*/*/requests.jsonl")):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_second_matrix_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    settings = small(tmp_path, SYSTEMS="sim", CONCURRENCIES="1", REPEAT="500")
    with started(tmp_path, **settings) as process:
        until_measuring(tmp_path / "matrix")
        second = matrix(tmp_path, **settings)
        assert second.returncode == 2
        assert second.stderr == (
            "matrix: another matrix is at work in matrix: wait for it, or set RESULTS to another"
            " folder\n"
        )
        assert process.poll() is None
    assert len(folders(tmp_path / "matrix")) == 1


def test_without_locks_two_matrices_keep_to_their_own_folders(tmp_path: Path) -> None:
    """As on a file system that has none: flock says so with another code than for a conflict."""
    path = command(tmp_path, "flock", "exit 71")
    given = small(tmp_path, SYSTEMS="sim", CONCURRENCIES="1", PATH=path)
    more = f"{given['EXTRA_ARGS']} --port {free_port()}"  # the last one holds
    other = given | {"MAX_TOKENS": "9", "EXTRA_ARGS": more}
    with started(tmp_path, **given) as first, started(tmp_path, **other) as second:
        assert first.wait(60) == 0, (tmp_path / "log-8").read_text()
        assert second.wait(60) == 0, (tmp_path / "log-9").read_text()
    tried = {
        options.split("--max-tokens ")[1][0]: at for _, at, options in rows(tmp_path / "matrix")
    }
    assert sorted(tried) == ["8", "9"]
    for tokens, folder in tried.items():
        planned = header(tmp_path / "matrix" / folder)["plan"]["requests"]
        assert [request["max_tokens"] for request in planned] == [int(tokens)] * 2


def test_a_preset_or_prompt_that_changed_is_another_cell(tmp_path: Path) -> None:
    settings = small(tmp_path, SYSTEMS="sim", CONCURRENCIES="1")
    assert matrix(tmp_path, **settings).returncode == 0
    again = matrix(tmp_path, **settings)
    assert "was measured before" in again.stderr
    for name in ("presets.toml", "two.jsonl"):
        with (tmp_path / name).open("a") as file:
            file.write("\n")
        changed = matrix(tmp_path, **settings)
        assert changed.returncode == 0, changed.stderr
        assert "was measured before" not in changed.stderr
    assert len(folders(tmp_path / "matrix")) == 3


def test_an_eagle_of_ones_own_with_two_requests_is_no_failure(tmp_path: Path) -> None:
    settings = small(tmp_path, SYSTEMS="my-eagle", CONCURRENCIES="2")
    with (tmp_path / "presets.toml").open("a") as file:
        file.write('\n[servers.my-eagle]\nengine = "eagle"\nspeculative = true\n')
    done = matrix(tmp_path, **settings)
    assert done.returncode == 0, done.stderr
    assert "my-eagle at concurrency 2: not run: my-eagle decodes one request" in done.stdout
    assert "one request at a time (its KV cache" in done.stderr  # the client's own words
    assert [path.name for path in (tmp_path / "matrix").iterdir()] == ["matrix.tsv"]


def test_it_ends_where_a_server_left_memory_in_use(tmp_path: Path) -> None:
    program = (
        "from server_launchers import process; process.GPU_RELEASE_S = 0.3;"
        "from bench_client.cli import main; main()"
    )
    path = command(tmp_path, "bench-client", f'exec {sys.executable} -c "{program}" "$@"')
    double = {"PYTHONPATH": str(NVML), "NVML_DOUBLE_WATTS": "100", "PATH": path}
    leak = {"NVML_DOUBLE_LEAK": "matrix/sim-*/*/server.log"}
    settings = small(tmp_path, SYSTEMS="sim sim-eagle3", CONCURRENCIES="1", **double)
    done = matrix(tmp_path, **settings, **leak)
    assert done.returncode == 3
    assert "ends here: the last server left something behind" in done.stderr
    assert "more in use than before" in done.stderr
    assert "sim-eagle3 at concurrency" not in done.stderr
    assert "concurrency 1" in done.stdout  # the report of what was measured
    again = matrix(tmp_path, **settings)
    assert again.returncode == 0, again.stderr
    assert again.stderr.count("was measured before") == 1


@pytest.mark.parametrize("mask", ["022", "027"])
def test_results_can_be_read_by_whom_the_umask_lets(tmp_path: Path, mask: str) -> None:
    settings = small(tmp_path, SYSTEMS="broken", CONCURRENCIES="1")
    line = f"umask {mask}; exec {MATRIX}"
    env = environment(**settings)
    subprocess.run(["bash", "-c", line], cwd=tmp_path, env=env, capture_output=True, check=False)
    (own,) = (tmp_path / "matrix").glob("broken-c1.*")
    assert own.stat().st_mode & 0o777 == 0o777 & ~int(mask, 8)
