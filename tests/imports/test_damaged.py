"""What other tools' output is like when something is wrong with it: null, told, or one line."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from bench_client.imports.files import import_file
from bench_client.records import Run
from bench_client.run.fold import save_run
from tests.imports.fixtures import imported, text
from tests.imports.test_files import DETAILS, VLLM_DETAILS, sglang_line, vllm_result

DECODE = (
    "Decode batch, #running-req: 1, #token: 9, token usage: 0.1, cuda graph: True, "
    "gen throughput (token/s): {}, #queue-req: 0\n"
)
EAGLE = "Generation time: {}s for 100 tokens, speed: 50.0 tokens/s\n"
BLOCK = text("golden/sglang_0.5.6_spec.txt")


def one(entry: dict[str, Any]) -> Run:
    [run] = import_file("r.jsonl", json.dumps(entry))
    return run


def said(run: Run) -> str:
    return " ".join(imported(run).findings)


@pytest.mark.parametrize("content", [DECODE.format("0.00"), EAGLE.format("0.0")])
def test_a_speed_of_nothing_is_none(content: str, tmp_path: Path) -> None:
    [run] = import_file("n", content)
    assert not imported(run).samples.keys() & {"tps_decode", "tps_e2e", "step_ms"}
    assert "1 of 1 lines" in said(run)
    save_run(run, tmp_path)


def test_the_other_lines_stay() -> None:
    [log] = import_file("n", DECODE.format("0.00") + DECODE.format("50.00"))
    assert imported(log).samples == {"tps_decode": (50.0,), "step_ms": (20.0,)}
    [timings] = import_file("n", EAGLE.format("0.0") + EAGLE.format("2.0"))
    assert imported(timings).samples == {"tps_e2e": (50.0,)}
    assert len(timings.records) == 2


def test_steps_of_a_saved_run_with_a_zero_speed(tmp_path: Path) -> None:
    """Folders of earlier versions hold such samples."""
    [run] = import_file("n", DECODE.format("50.00"))
    imported(run).samples.clear()
    imported(run).samples["tps_decode"] = (0.0, 50.0)
    _, summary = save_run(run, tmp_path)
    assert summary.step_ms.n == 0


def test_spec_lines_in_which_nothing_was_drafted() -> None:
    line = (
        "SpecDecoding metrics: Mean acceptance length: {}, Accepted: 0 tokens, Drafted: 0 tokens, "
        "Per-position acceptance rate: nan, nan\n"
    )
    for mean in ("1.00", "2.00", "nan"):
        [run] = import_file("n", line.format(mean))
        assert not [v for v in imported(run).figures.values() if v is not None and math.isnan(v)]


def test_a_time_that_is_no_number_is_told_with_its_line() -> None:
    with pytest.raises(ValueError, match=r"^n: line 2: '1\.2\.3' s is no time$"):
        import_file("n", EAGLE.format("1.0") + EAGLE.format("1.2.3"))


BAD_VALUES: list[Any] = [None, math.nan, math.inf, "abc", [], {}, True, 10**400]


@pytest.mark.parametrize("value", BAD_VALUES, ids=lambda value: str(value)[:8])
@pytest.mark.parametrize("key", [*DETAILS, "completed", "mean_e2e_latency_ms", "max_concurrency"])
@pytest.mark.parametrize("tool", ["sglang", "vllm"])
def test_a_value_that_is_none_is_null(key: str, value: Any, tool: str, tmp_path: Path) -> None:
    whole = sglang_line(**DETAILS) if tool == "sglang" else vllm_result(**VLLM_DETAILS)
    damaged = [value, 0.5] if key in DETAILS else value
    save_run(one(whole | {key: damaged}), tmp_path)
    save_run(one(whole | {key: value}), tmp_path)


def test_null_ttft_leaves_the_rest() -> None:
    for whole in (sglang_line(**DETAILS), vllm_result(**VLLM_DETAILS)):
        good, bad = one(whole | {"ttfts": [None, 0.0]}).records
        assert good.first_token_ns is None
        assert (good.output_tokens, bad.outcome) == (6, "failed")


def test_null_position_is_null() -> None:
    run = one(vllm_result(spec_decode_per_position_acceptance_rates=[0.75, None]))
    figures = imported(run).figures
    assert figures["speculation.per_position_pct.0"] == 75
    assert figures["speculation.per_position_pct.1"] is None


def test_a_slot_count_beyond_the_requests_costs_nothing() -> None:
    run = one(sglang_line(**DETAILS) | {"max_concurrency": 10**12})
    assert {record.sent_ns for record in run.records} == {0}


def test_requests_at_a_traces_times_are_told() -> None:
    assert "times of a trace" in said(one(sglang_line(request_rate="trace")))
    [run] = import_file("n", BLOCK.replace("inf       ", "trace     "))
    assert "times of a trace" in said(run)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([vllm_result(request_rate="abc")], r"^x: request_rate is 'abc', which is no number$"),
        (
            [vllm_result(), vllm_result(request_rate="abc")],
            r"^x: line 2: request_rate is 'abc', which is no number$",
        ),
        ([sglang_line(request_rate="1/s")], r"^x: request_rate is '1/s'"),
        (
            [{"benchmarks": [{}], "metadata": {"version": 2}}],
            r"^x: no result of guidellm as known here: 'config' missing$",
        ),
        (
            [{"aiperf_version": "1", "request_count": 3}],
            r"^x: no result of aiperf as known here: .*'int'",
        ),
    ],
)
def test_what_cannot_be_read_names_file_and_line(
    entries: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        import_file("x", "\n".join(map(json.dumps, entries)))


def test_an_array_of_results() -> None:
    runs = import_file("x", json.dumps([sglang_line(), vllm_result()], indent=1))
    assert [run.header.server.engine for run in runs] == ["sglang", "vllm"]
    with pytest.raises(ValueError, match=r"^x: entry 2: JSON that no known tool writes"):
        import_file("x", json.dumps([sglang_line(), {"a": 1}]))
    with pytest.raises(ValueError, match=r"^x: every entry of a JSON array"):
        import_file("x", "[1, 2]")


def test_json_in_a_note() -> None:
    detailed = json.dumps(vllm_result(**VLLM_DETAILS), indent=2)
    note = (
        f"# SGLang + EAGLE3\nThat gave\n{json.dumps(sglang_line())}\n"
        f"and then {{not this}}\n## vLLM\n{detailed}\n{BLOCK}"
    )
    sglang, vllm, block = import_file("n.md", note)
    assert sglang.header.server.name == "sglang-eagle3"
    assert imported(sglang).label == "SGLang + EAGLE3"
    assert (vllm.header.server.name, len(vllm.records)) == ("vllm-speculative", 2)
    assert imported(block).figures["duration_s"] == 260.11


def test_json_in_a_note_that_cannot_be_read_names_its_line() -> None:
    note = f"first\n\n{json.dumps(vllm_result(request_rate='abc'))}\n"
    with pytest.raises(ValueError, match=r"^n: line 3: request_rate is 'abc'"):
        import_file("n", note)


def test_thousands_separators() -> None:
    assert "115649.44" in BLOCK
    for separated in ("115,649.44", "115'649.44", "115_649.44", "115\u202f649.44"):
        [run] = import_file("n", BLOCK.replace("115649.44", separated))
        assert imported(run).figures["e2e_ms.mean"] == 115649.44
        assert "capped" in said(run)


def test_a_value_that_is_no_number_is_told() -> None:
    [run] = import_file("n", BLOCK.replace("115649.44", "115.649,44"))
    assert imported(run).figures["e2e_ms.mean"] is None
    assert "“mean e2e latency (ms): 115.649,44” is not a number and is left out." in said(run)


def cut(block: str, label: str) -> str:
    """The block up to a line, which is the last."""
    head, _, tail = block.partition(label)
    return head + label + tail.partition("\n")[0] + "\n"


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("sglang_0.5.23_spec", "Total input text tokens:"),
        ("sglang_0.5.23_spec", "P99 TTFT (ms):"),
        ("sglang_0.5.23_spec", "P99 ITL (ms):"),
        ("vllm_0.32_spec_c2", "P99 TTFT (ms):"),
        ("vllm_0.32_spec_c2", "Median ITL (ms):"),
    ],
)
def test_a_block_that_is_cut_off_is_told(name: str, label: str) -> None:
    block = text(f"golden/{name}.txt")
    [run] = import_file("n", cut(block, label))
    assert f"The block is cut off after “{label.lower().rstrip(':')}”" in said(run)
    assert imported(run).version is None
    for complete in (block, block.rstrip().rstrip("=")):
        [run] = import_file("n", complete)
        assert "cut off" not in said(run)


@pytest.mark.parametrize("name", ["sglang_0.5.23_spec", "vllm_0.32_spec_c2"])
def test_a_value_that_is_cut_is_unknown(name: str) -> None:
    whole = text(f"golden/{name}.txt")
    head, label, tail = whole.partition("Output token throughput (tok/s):")
    value = tail.split()[0]
    for stump in (value[:1], value[:-1]):
        [run] = import_file("n", f"{head}{label}         {stump}")
        assert "throughput.output_tok_per_s" not in imported(run).figures
        assert imported(run).figures["output_tokens"] == 91009
        assert "The block is cut off after “" in said(run)
    for end in (" ", "\n"):
        [run] = import_file("n", f"{head}{label}         {value}{end}")
        assert imported(run).figures["throughput.output_tok_per_s"] == float(value)


def test_the_last_line_of_a_whole_block_needs_no_newline() -> None:
    [run] = import_file("n", BLOCK.rstrip().rstrip("=").rstrip())
    assert imported(run).figures["itl_ms.max"] == 3256.63


@pytest.mark.parametrize("count", [None, -3, "many"])
def test_a_count_that_is_none_is_refused_unless_requests_tell(count: Any) -> None:
    message = r"^x: line 2: its count of successful requests is missing, below 0 or no number$"
    for result, details in ((sglang_line, DETAILS), (vllm_result, VLLM_DETAILS)):
        entries = [result(), result(completed=count)]
        with pytest.raises(ValueError, match=message):
            import_file("x", "\n".join(map(json.dumps, entries)))
        run = one(result(completed=count, **details))
        assert imported(run).figures["requests.ok"] is None
        assert [record.outcome for record in run.records] == ["ok", "failed"]


def test_a_printed_count_that_is_none_is_refused() -> None:
    for count in ("N", "-3"):
        with pytest.raises(ValueError, match=r"^n: line 4: its count of successful requests"):
            import_file("n", f"# run\n{BLOCK}".replace(" 500 ", f" {count} ").lstrip())


def test_aiperf_counts_nothing_where_all_requests_failed() -> None:
    entry = json.loads(text("tools/aiperf-0.13.0.json"))
    del entry["request_count"]
    assert imported(one(entry)).figures["requests.ok"] == 0
    del entry["error_request_count"]
    with pytest.raises(ValueError, match=r"^r\.jsonl: its count of successful requests"):
        one(entry)


def test_aiperf_records_of_the_warm_up_alone_are_refused() -> None:
    lines = [json.loads(line) for line in text("tools/aiperf-0.13.0-records.jsonl").splitlines()]
    for line in lines:
        line["metadata"]["benchmark_phase"] = "warmup"
    with pytest.raises(ValueError, match=r"^p: every request in it is of the warm-up$"):
        import_file("p", "\n".join(map(json.dumps, lines)))
