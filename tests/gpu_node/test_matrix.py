"""matrix.sh from end to end: what it measures, notes, skips, compares and returns."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from server_launchers.ports import is_free
from tests.gpu_node.matrix import (
    MATRIX,
    SCRIPTS,
    environment,
    folders,
    header,
    matrix,
    rows,
    small,
)

SIMS = "sim sim-eagle3"


Called = tuple[Path, dict[str, str], subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Called:
    """A whole matrix, in whose middle one system cannot start."""
    cwd = tmp_path_factory.mktemp("first")
    settings = small(cwd, CONCURRENCIES="1 2")
    return cwd, settings, matrix(cwd, **settings | {"SYSTEMS": "sim broken sim-eagle3"})


def test_a_cell_that_fails_is_noted_and_the_others_are_measured(
    first: Called,
) -> None:
    cwd, _, done = first
    assert done.returncode == 1, done.stderr
    tries = rows(cwd / "matrix")
    assert [code for code, _, _ in tries] == ["0", "3", "0", "0", "3", "0"]
    for code, folder, options in tries:
        found = header(cwd / "matrix" / folder)
        assert found["ended"] == ("complete" if code == "0" else "aborted")
        asked = f"--server {found['server']['name']} --concurrency"
        assert options.startswith(f"{asked} {found['plan']['load']['concurrency']} ")
    assert sorted(folder for _, folder, _ in tries) == folders(cwd / "matrix")
    notes = done.stdout.splitlines()[-6:]
    assert notes[1].startswith("broken at concurrency 1: FAILED (exit code 3), matrix/")
    assert notes[5].startswith("sim-eagle3 at concurrency 2: measured, matrix/")
    assert "unrecognized arguments: --no-such-flag" in done.stderr


def test_it_ends_with_the_comparison_for_each_concurrency(
    first: Called,
) -> None:
    cwd, _, done = first
    for concurrency in "12":
        _, _, told = done.stdout.partition(f"\nconcurrency {concurrency}\n")
        assert told.startswith("comparison with sim\n")
        assert "the speed of sim" in told
        for kind in ("md", "html"):
            saved = (cwd / "matrix" / f"concurrency-{concurrency}.{kind}").read_text()
            assert f"concurrency {concurrency}" in saved
            assert "sim-eagle3" in saved


def test_called_again_it_measures_nothing_and_compares(
    first: Called,
) -> None:
    cwd, settings, _ = first
    before = folders(cwd / "matrix")
    done = matrix(cwd, **settings | {"SYSTEMS": SIMS})
    assert done.returncode == 0, done.stderr
    assert folders(cwd / "matrix") == before
    assert done.stderr.count("was measured before") == 4
    assert "bench-client run" not in done.stderr
    assert done.stdout.count("comparison with sim") == 2


def test_only_the_cell_that_did_not_end_is_measured_again(tmp_path: Path, first: Called) -> None:
    cwd, settings, _ = first
    shutil.copytree(cwd, tmp_path, dirs_exist_ok=True)
    _, cut, _ = rows(tmp_path / "matrix")[2]
    ended = tmp_path / "matrix" / cut / "run.json"
    ended.write_text(ended.read_text().replace('"complete"', '"interrupted"'))
    before = folders(tmp_path / "matrix")
    done = matrix(tmp_path, **settings | {"SYSTEMS": SIMS})
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("was measured before") == 3
    (new,) = set(folders(tmp_path / "matrix")) - set(before)
    assert rows(tmp_path / "matrix")[-1][:2] == ["0", new]
    assert f"sim-eagle3 at concurrency 1: measured, matrix/{new}" in done.stdout


def test_other_settings_are_other_cells(tmp_path: Path, first: Called) -> None:
    cwd, settings, _ = first
    shutil.copytree(cwd, tmp_path, dirs_exist_ok=True)
    other = {"SYSTEMS": "sim", "CONCURRENCIES": "1", "MAX_TOKENS": "9"}
    done = matrix(tmp_path, **settings | other)
    assert done.returncode == 0, done.stderr
    _, folder, options = rows(tmp_path / "matrix")[-1]
    assert "--max-tokens 9" in options
    planned = header(tmp_path / "matrix" / folder)["plan"]["requests"]
    assert [request["max_tokens"] for request in planned] == [9, 9]


def test_a_run_whose_requests_fail_counts_as_failed_and_is_not_repeated(tmp_path: Path) -> None:
    settings = small(tmp_path, SYSTEMS="sim", CONCURRENCIES="1")
    settings["EXTRA_ARGS"] += " --launch-arg=--fault --launch-arg=abort:3"
    done = matrix(tmp_path, **settings)
    assert done.returncode == 1
    assert "sim at concurrency 1: FAILED: requests failed or the run is invalid" in done.stdout
    again = matrix(tmp_path, **settings)
    assert again.returncode == 1
    assert again.stderr.count("was measured before") == 1
    assert len(folders(tmp_path / "matrix")) == 1


def test_eagle_with_two_requests_at_a_time_is_no_failure(tmp_path: Path) -> None:
    done = matrix(tmp_path, SYSTEMS="transformers-eagle3", CONCURRENCIES="2", RESULTS="matrix")
    assert done.returncode == 0, done.stderr
    assert "at concurrency 2: not run: transformers-eagle3 decodes one request" in done.stdout
    assert folders(tmp_path / "matrix") == []


@pytest.mark.parametrize(
    ("systems", "concurrencies", "said"),
    [
        (
            "sim transformers-eagle",
            "1",
            "SYSTEMS: no server preset transformers-eagle: did you mean",
        ),
        ("sim", "1 x", "CONCURRENCIES: x is no number of requests in flight"),
        ("sim", "0", "CONCURRENCIES: 0 is no number"),
    ],
)
def test_what_it_is_to_measure_is_checked_before_the_first_cell(
    tmp_path: Path, systems: str, concurrencies: str, said: str
) -> None:
    done = matrix(tmp_path, SYSTEMS=systems, CONCURRENCIES=concurrencies, RESULTS="matrix")
    assert done.returncode == 2
    assert done.stderr.startswith(f"matrix: {said}")
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("argument", "code"), [("--help", 0), ("-h", 2), ("sim", 2)])
def test_it_takes_no_arguments(tmp_path: Path, argument: str, code: int) -> None:
    done = subprocess.run(
        [MATRIX, argument],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    usage, other = (done.stderr, done.stdout) if code else (done.stdout, done.stderr)
    assert usage.startswith("usage: matrix.sh, with its settings in the environment: SYSTEMS")
    assert other == ""
    assert list(tmp_path.iterdir()) == []


def test_draft_options_are_for_all_systems_alike(tmp_path: Path) -> None:
    settings = small(tmp_path, SYSTEMS=SIMS, CONCURRENCIES="1")
    settings["EXTRA_ARGS"] += " --spec-steps 3 --draft-model my/head"
    done = matrix(tmp_path, **settings)
    assert done.returncode == 0, done.stderr
    assert all(
        row[2].endswith(" --spec-steps 3 --draft-model my/head")
        for row in rows(tmp_path / "matrix")
    )
    assert "sim does not speculate: without effect: --draft-model, --spec-steps" in done.stderr


def test_settings_reach_every_system(tmp_path: Path) -> None:
    python = {
        f"{engine}_PYTHON": f"/none/{engine.lower()}"
        for engine in ("SGLANG", "VLLM", "TRANSFORMERS", "EAGLE")
    }
    given = {"MODEL": "llama-3.1-8b", "TEMPERATURE": "0", "REPEAT": "3", "MAX_TOKENS": "64"}
    done = matrix(tmp_path, CONCURRENCIES="1", **given, **python)
    assert done.returncode == 1
    tried = [options for _, _, options in rows(tmp_path / "results" / "matrix")]
    expected = {
        "transformers": "transformers",
        "transformers-eagle3": "eagle",
        "vllm": "vllm",
        "vllm-eagle3": "vllm",
        "sglang": "sglang",
        "sglang-eagle3": "sglang",
    }
    assert tried == [
        f"--server {system} --concurrency 1 --scenario eleven-prompts --model llama-3.1-8b"
        f" --max-tokens 64 --temperature 0 --repeat 3 --engine-python /none/{engine}"
        for system, engine in expected.items()
    ]
    for engine in set(expected.values()):
        assert f"--engine-python /none/{engine}: there is no such program" in done.stderr


@pytest.mark.parametrize("like", ["Ctrl-C", "Slurm"])
def test_a_signal_ends_the_cell_in_order_and_the_matrix(tmp_path: Path, like: str) -> None:
    """Ctrl-C reaches the whole foreground group, Slurm's SIGTERM the script alone."""
    settings = small(tmp_path, SYSTEMS=SIMS, CONCURRENCIES="1", REPEAT="500")
    log = tmp_path / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [MATRIX],
            cwd=tmp_path,
            env=environment(**settings),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    _wait_for(log, "/1000  ok ")
    if like == "Ctrl-C":
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.terminate()
    assert process.wait(timeout=30) == (130 if like == "Ctrl-C" else 143)
    told = log.read_text()
    assert "stopped; the same call again goes on from here" in told
    assert "sim-eagle3 at concurrency" not in told
    (folder,) = folders(tmp_path / "matrix")
    assert header(tmp_path / "matrix" / folder)["ended"] == "interrupted"
    assert (tmp_path / "matrix" / folder / "requests.jsonl").read_text().count("\n") >= 1
    assert rows(tmp_path / "matrix")[0][:2] == ["130", folder]
    port = settings["EXTRA_ARGS"].split("--port ")[1].split()[0]
    assert not [p for p in psutil.process_iter(["cmdline"]) if port in (p.info["cmdline"] or [])]


def _wait_for(log: Path, text: str) -> None:
    deadline = time.monotonic() + 40
    while text not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


def test_without_the_command_it_says_so(tmp_path: Path) -> None:
    bare = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [MATRIX], cwd=tmp_path, env=bare, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == (
        "matrix: bench-client is not on the PATH: activate the environment that has it\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_slurm_runs_it_in_the_folder_of_submission(tmp_path: Path) -> None:
    """Slurm runs a copy of the script from a folder of its own."""
    copy = shutil.copy(SCRIPTS / "matrix.sbatch", tmp_path / "slurm_script")
    settings = {"SYSTEMS": "transformers-eagle3", "CONCURRENCIES": "2"}
    settings |= {"RESULTS": str(tmp_path / "matrix")}

    def run(**more: str) -> subprocess.CompletedProcess[str]:
        env = environment(**settings, **more)
        return subprocess.run(
            ["bash", copy], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )

    done = run(SLURM_SUBMIT_DIR=str(SCRIPTS.parents[1]), SLURM_JOB_ID="7")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "matrix" / "matrix.tsv").exists()
    lost = run()
    assert lost.returncode != 0
    assert "submit this with sbatch" in lost.stderr
    elsewhere = run(SLURM_SUBMIT_DIR=str(tmp_path), SLURM_JOB_ID="7")
    assert elsewhere.returncode == 2
    assert elsewhere.stderr == f"submit this from the root of the clone: {tmp_path} is none\n"


def test_each_slurm_job_has_a_port_of_its_own(tmp_path: Path) -> None:
    """And goes on where another job, on another port, has stopped."""
    settings = small(tmp_path, SYSTEMS="sim", CONCURRENCIES="1")
    settings["EXTRA_ARGS"] = settings["EXTRA_ARGS"].split(" --port ")[0]
    (tmp_path / "server_launchers").symlink_to(SCRIPTS.parent)
    jobs = [n for n in range(31000, 31200) if is_free("127.0.0.1", 20000 + n % 10000)]
    told = [
        subprocess.run(
            ["bash", SCRIPTS / "matrix.sbatch"],
            env=environment(**settings, SLURM_SUBMIT_DIR=str(tmp_path), SLURM_JOB_ID=str(job)),
            capture_output=True,
            text=True,
            check=False,
        )
        for job in jobs[:2]
    ]
    assert [done.returncode for done in told] == [0, 0], told[0].stderr
    (folder,) = folders(tmp_path / "matrix")
    url = header(tmp_path / "matrix" / folder)["server"]["url"]
    assert url == f"http://127.0.0.1:{20000 + jobs[0] % 10000}"
    assert "was measured before" in told[1].stderr


def test_the_command_is_that_of_this_python() -> None:
    """Else the tests above would run another installation."""
    found = shutil.which("bench-client", path=environment()["PATH"])
    assert found == str(Path(sys.executable).with_name("bench-client"))
