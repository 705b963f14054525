"""The forms in which people paste what a benchmark printed."""

import json
import re
from collections.abc import Callable

import pytest

from bench_client.imports.files import import_file
from bench_client.records import Load
from tests.imports.fixtures import imported, text
from tests.imports.test_files import sglang_line

SGLANG = text("golden/sglang_0.5.23_spec.txt")
VLLM = text("golden/vllm_0.32_spec_c2.txt")
NOTE = text("notes/llama-8b-sharegpt.txt")
FIGURE = re.compile(r"^(.*?): +(\S.*?) *$", re.MULTILINE)

FORMS: dict[str, Callable[[str], str]] = {
    "no space after the colon": lambda block: re.sub(r": +", ":", block),
    "full-width colon": lambda block: re.sub(r": +", "：", block),
    "table": lambda block: FIGURE.sub(r"| \1 | \2 |", block),
    "table with colons": lambda block: FIGURE.sub(r"| \1: | \2 |", block),
    "table with a rule": lambda block: (
        "| Metric | Value |\n|---|:---:|\n" + FIGURE.sub(r"| \1 | \2 |", block)
    ),
    "bold": lambda block: FIGURE.sub(r"**\1:** \2", block),
    "list": lambda block: FIGURE.sub(r"- \1: `\2`", block),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("block", [SGLANG, VLLM], ids=["sglang", "vllm"])
def test_a_retyped_block_says_the_same(block: str, form: str) -> None:
    [original] = import_file("n", block)
    [run] = import_file("n", FORMS[form](block))
    assert imported(run).figures == imported(original).figures
    assert imported(run).findings == imported(original).findings
    assert run.header.plan == original.header.plan


def test_a_table_of_two_results_side_by_side_is_refused() -> None:
    table = FIGURE.sub(r"| \1 | \2 | \2 |", SGLANG)
    with pytest.raises(ValueError, match=r"^n: line \d+: its count of successful requests is"):
        import_file("n", table)


@pytest.mark.parametrize(
    "prefix",
    [
        "2026-11-30T15:34:13.12345{}Z stdout F ",
        "sglang-bench-7d9f-abcde sglang ",
        "INFO:root:",
        "2026-11-30 15:34:13,{} - INFO - ",
        "2026-11-30 15:34:13,{} - bench - INFO - ",
        "{}:",
        "out.log:{}:",
        "+",
        "+ ",
        "{}. ",
        "[2026-11-30 15:34:{}] ",
    ],
)
def test_a_note_with_something_before_each_line(prefix: str) -> None:
    lines = [prefix.format(at) + line for at, line in enumerate(NOTE.splitlines(), 10)]
    plain, prefixed = import_file("n", NOTE), import_file("n", "\n".join(lines) + "\n")
    assert [run.header.server for run in prefixed] == [run.header.server for run in plain]
    assert [imported(run) for run in prefixed] == [imported(run) for run in plain]


def test_empty_lines_of_a_log_have_lost_the_space_at_their_end() -> None:
    log = "".join(f"12:30 stdout F {line}\n12:30 stdout F\n" for line in SGLANG.splitlines())
    [run], [original] = import_file("n", log), import_file("n", SGLANG)
    assert imported(run).figures == imported(original).figures


def test_a_word_before_the_count_in_prose_takes_nothing_from_other_lines() -> None:
    [run] = import_file("n", f"with a successful requests: count\n{SGLANG}\n")
    assert imported(run).figures["speculation.accept_length"] == 2.80


def test_a_result_on_the_first_line_with_prose_and_a_block_below() -> None:
    for first in (json.dumps(sglang_line()), json.dumps(sglang_line(), indent=2)):
        result, block = import_file("n", f"{first}\n\nand later, printed:\n{SGLANG}")
        assert imported(result).figures["duration_s"] == 3
        assert imported(block).figures["duration_s"] == 260.11
        [alone] = import_file("n", f"{first}\nThat was fast.")
        assert imported(alone).figures["duration_s"] == 3


def test_a_broken_line_of_jsonl_is_no_prose() -> None:
    lines = [json.dumps(sglang_line())] * 3
    with pytest.raises(ValueError, match=r"^n: line 2 is not JSON"):
        import_file("n", "\n".join([lines[0], lines[1][40:], lines[2]]))


def test_dockers_json_log() -> None:
    lines = [
        json.dumps({"log": f"{line}\n", "stream": "stdout", "time": "2026-11-30T15:34:13Z"})
        for line in NOTE.splitlines()
    ]
    found = import_file("c-json.log", "\n".join(lines))
    assert [run.header.server.name for run in found] == ["sglang-eagle3", "sglang"]
    assert imported(found[1]).figures == imported(import_file("n", NOTE)[1]).figures


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({"tag": "night"}, "night, concurrency 1"),
        ({"tag": None}, "sglang-speculative, concurrency 1"),
        ({"tag": None, "accept_length": None}, "sglang, concurrency 1"),
        (
            {"tag": "a", "request_rate": 2.5, "max_concurrency": 8},
            "a, 2.5 req/s, at most 8 in flight",
        ),
        ({"tag": "burst", "max_concurrency": None}, "burst"),
        ({"tag": None, "max_concurrency": None}, None),
    ],
)
def test_label_of_a_json_result(changes: dict[str, object], label: str | None) -> None:
    [run] = import_file("r.jsonl", json.dumps(sglang_line(**changes)))
    assert imported(run).label == label
    assert run.header.server.name.startswith("sglang")


def test_a_heading_is_the_label_of_json_below_it() -> None:
    [run] = import_file("n", f"## SGLang + EAGLE3\n{json.dumps(sglang_line())}\n")
    assert imported(run).label == "SGLang + EAGLE3"
    assert run.header.plan.load == Load(kind="closed", concurrency=1)
