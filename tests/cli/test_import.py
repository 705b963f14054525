"""`import` and `compare` as a script sees them: one object, all or nothing, and why it failed."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.helpers import BENCH_CLIENT, bench_client, folder, load, one_line

FIXTURES = Path(__file__).parents[1] / "fixtures"
BLOCK = FIXTURES / "golden" / "sglang_0.5.23_spec.txt"
PLAIN = FIXTURES / "golden" / "sglang_0.5.23_nospec.txt"
NOTE = FIXTURES / "notes" / "qwen3-8b-serial-prompts.txt"
BARS = "".join(
    f"[00:27<00:00, 27.{n}0s/it, est. speed input: 103.04 toks/s, output: 42.{n}6 toks/s]\n"
    for n in range(5)
)


def imported(results: Path, *files: Path) -> dict[str, Any]:
    done = bench_client("import", *files, "--results", results, "--json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_several_files_are_one_object(tmp_path: Path) -> None:
    found = imported(tmp_path, BLOCK, NOTE, BLOCK)
    assert list(found) == ["runs", "comparisons"]
    names = [run["name"] for run in found["runs"]]
    assert len(set(names)) == len(names) == 7
    assert {Path(run["path"]).parent for run in found["runs"]} == {tmp_path}
    assert {(each["baseline"], each["other"]) for each in found["comparisons"]} == {
        ("vllm + nothing", "vllm + eagle3"),
        ("sglang + nothing", "sglang + eagle"),
    }


def test_nothing_is_written_where_one_file_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    done = bench_client("import", BLOCK, tmp_path / "empty.txt", "--results", tmp_path / "r")
    assert done.returncode == 2
    assert "empty.txt: nothing to import" in one_line(done)
    assert not (tmp_path / "r").exists()


def test_utf_16_is_read(tmp_path: Path) -> None:
    file = tmp_path / "windows.txt"
    file.write_text(BLOCK.read_text(), encoding="utf-16")
    [run] = imported(tmp_path / "r", file)["runs"]
    assert run["summary"]["requests"]["ok"] == 500


def test_standard_input_is_a_file(tmp_path: Path) -> None:
    command = [*BENCH_CLIENT, "import", "-", "--results", str(tmp_path), "--json"]
    done = subprocess.run(command, input=BLOCK.read_bytes(), capture_output=True, check=True)
    [run] = json.loads(done.stdout)["runs"]
    assert run["summary"]["requests"]["ok"] == 500
    assert load(Path(run["path"]) / "run.json")["imported"]["file"] == "standard input"


@pytest.mark.parametrize(
    ("note", "pair"),
    [
        (f"sglang baseline\n\n{PLAIN.read_text()}\nsglang + MTP\n\n{BLOCK.read_text()}",
         ("sglang baseline", "sglang + MTP")),
        (f"vllm baseline\n{BARS}vllm + ngram\n{BARS}", ("vllm baseline", "vllm + ngram")),
        (PLAIN.read_text() + BLOCK.read_text(), ("sglang", "sglang-speculative")),
        (f"Plain:\n{PLAIN.read_text()}\nAnd now:\n{BLOCK.read_text()}", ("Plain", "And now")),
    ],
)  # fmt: skip
def test_a_plain_run_is_compared_with_any_speculating_one(
    note: str, pair: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "note.txt").write_text(note)
    [found] = imported(tmp_path / "r", tmp_path / "note.txt")["comparisons"]
    assert (found["baseline"], found["other"]) == pair


def test_what_is_unknown_is_called_so(tmp_path: Path) -> None:
    records = FIXTURES / "tools" / "aiperf-0.13.0-records.jsonl"
    shown = bench_client("import", records, "--results", tmp_path).stdout.splitlines()
    rows = dict(line.split(maxsplit=1) for line in shown if line.startswith(("engine", "load")))
    assert {name: value.strip() for name, value in rows.items()} == {
        "engine": "unknown",
        "load": "unknown",
    }


def test_an_import_shows_what_it_has(tmp_path: Path) -> None:
    done = bench_client("import", BLOCK, "--results", tmp_path)
    rows = [line.split()[0] for line in done.stdout.splitlines() if " ms " in line]
    assert {"TTFT", "ITL", "TPOT", "E2E"} <= set(rows)
    assert "open loop, all at once (inf req/s)" in done.stdout
    vllm = FIXTURES / "golden" / "vllm_0.32_spec_c2.txt"
    assert "chunk gap  ms" in bench_client("import", vllm, "--results", tmp_path).stdout


def test_log_lines_are_no_requests(tmp_path: Path) -> None:
    log = FIXTURES / "engine_logs" / "vllm-0.24.0-eagle3.log"
    done = bench_client("import", log, "--results", tmp_path)
    assert "4 log lines;" in done.stdout
    assert "only 4 log lines: " in done.stdout
    # Of the printed counts, not the mean of two rounded lines.
    found = load(folder(tmp_path) / "summary.json")["speculation"]
    assert found["accept_length"] == 1 + 2432 / 1566


def test_gates_are_in_the_json(tmp_path: Path) -> None:
    runs = [run["path"] for run in imported(tmp_path, NOTE)["runs"] if "vllm" in run["path"]]
    gates = ("tps_e2e >= -3%", "tps_e2e >= 2.0", "tps_e2e >= 1.45", "ttft_ms <= 1")
    asked = [part for gate in gates for part in ("--gate", gate)]
    done = bench_client("compare", *runs, "--json", *asked)
    assert done.returncode == 1
    found = json.loads(done.stdout)["gates"]
    assert [gate["verdict"] for gate in found] == ["passed", "failed", "can't tell", "can't tell"]
    assert [gate["expression"] for gate in found] == list(gates)
    assert round(found[0]["ratio"], 3) == 1.444
    assert found[0]["ci95"][0] < found[0]["ratio"] < found[0]["ci95"][1]
    assert (found[3]["ratio"], found[3]["ci95"]) == (None, None)
    assert {(gate["baseline"], gate["other"]) for gate in found} == {
        ("vllm + nothing", "vllm + eagle3")
    }
    assert json.loads(bench_client("compare", *runs, "--json").stdout)["gates"] == []


def test_gates_of_an_invalid_run_say_why(tmp_path: Path) -> None:
    good, bad = imported(tmp_path, PLAIN, BLOCK)["runs"]
    header = Path(bad["path"]) / "run.json"
    header.write_text(json.dumps(load(header) | {"ended": "interrupted"}))
    broken = load(header)
    broken["imported"]["figures"]["requests.ok"] = 0
    broken["imported"]["figures"]["requests.failed"] = 5
    header.write_text(json.dumps(broken))
    pair = (good["path"], bad["path"])
    gate = ("--gate", "output_tok_per_s >= -3%")
    for form in ((), ("--json",), ("--markdown",)):
        done = bench_client("compare", *pair, *gate, *form)
        assert done.returncode == 1
        line = one_line(done)
        assert line.startswith("bench-client: sglang-speculative is invalid")
        assert "(exit 1): " in line
        assert line.endswith(")")
    assert bench_client("compare", *pair).returncode == 0
