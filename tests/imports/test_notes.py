"""The two notes that this program exists for, and what must be read out of them."""

from statistics import fmean, stdev

import pytest

from bench_client.imports.notes import import_text
from bench_client.measure.compare import compare
from bench_client.records import Load, Run
from tests.imports.fixtures import imported, runs

SERIAL = "notes/qwen3-8b-serial-prompts.txt"
SHAREGPT = "notes/llama-8b-sharegpt.txt"

# vLLM's bars: (input, output) tokens, the only integers that all three rounded numbers allow.
VLLM_TOKENS = """2803/1166 2530/647 2860/1481 3078/1644 2904/839 3759/1543 2652/1056 2966/2200
2970/1415 3248/1538 2850/2188"""
VLLM_EAGLE3_TOKENS = """3312/830 2489/1377 2305/1907 2602/1852 3073/1315 3399/2176 3120/2044
3296/2417 3313/1901 3081/1898"""
EAGLE_TOKENS = [1128, 1469, 2217, 1477, 1268, 1122, 1559, 2051, 1422, 855, 1550]


@pytest.fixture(scope="module")
def serial() -> dict[str, Run]:
    return {run.header.server.name: run for run in runs(SERIAL)}


@pytest.fixture(scope="module")
def sharegpt() -> list[Run]:
    return runs(SHAREGPT)


def test_five_systems_labelled_by_their_headings(serial: dict[str, Run]) -> None:
    assert {name: imported(run).label for name, run in serial.items()} == {
        "transformers-eagle3": "transformers + eagle3",
        "vllm": "vllm + nothing",
        "sglang": "sglang + nothing",
        "vllm-eagle3": "vllm + eagle3",
        "sglang-eagle3": "sglang + eagle",
    }


@pytest.mark.parametrize(
    ("name", "figure", "n", "mean", "sd"),
    [
        ("transformers-eagle3", "tps_e2e", 11, 59.91, 4.26),
        ("vllm", "tps_e2e", 11, 42.72, 0.18),
        ("sglang", "tps_decode", 11, 44.00, 0.18),
        ("vllm-eagle3", "tps_e2e", 10, 61.71, 3.19),
        ("sglang-eagle3", "tps_decode", 11, 89.71, 12.32),
    ],
)
def test_speeds_of_the_five_systems(
    serial: dict[str, Run], name: str, figure: str, n: int, mean: float, sd: float
) -> None:
    values = imported(serial[name]).samples[figure]
    assert len(values) == n
    assert round(fmean(values), 2) == mean
    assert round(stdev(values), 2) == sd


def tokens(run: Run) -> str:
    return " ".join(f"{record.input_tokens}/{record.output_tokens}" for record in run.records)


def test_vllm_token_counts_are_recovered(serial: dict[str, Run]) -> None:
    assert tokens(serial["vllm"]).split() == VLLM_TOKENS.split()
    assert tokens(serial["vllm-eagle3"]).split() == VLLM_EAGLE3_TOKENS.split()


def test_requests_follow_each_other(serial: dict[str, Run]) -> None:
    records = serial["vllm"].records
    assert records[0].sent_ns == 0
    assert [r.last_token_ns for r in records[:-1]] == [r.sent_ns for r in records[1:]]
    assert (records[-1].last_token_ns or 0) / 1e9 == pytest.approx(367.88, abs=0.06)
    assert serial["vllm"].header.plan.load == Load(kind="closed", concurrency=1)
    assert all(record.first_token_ns is None for record in records)


def test_request_speeds_are_those_printed(serial: dict[str, Run]) -> None:
    # From the recovered tokens and time, rounded as vLLM rounded them.
    printed = imported(serial["vllm"]).samples["tps_e2e"]
    for record, rate in zip(serial["vllm"].records, printed, strict=True):
        seconds = ((record.last_token_ns or 0) - (record.sent_ns or 0)) / 1e9
        assert round((record.output_tokens or 0) / seconds, 2) == rate


def test_eagle_tokens_and_times(serial: dict[str, Run]) -> None:
    records = serial["transformers-eagle3"].records
    assert [record.output_tokens for record in records] == EAGLE_TOKENS
    assert (records[-1].last_token_ns or 0) / 1e9 == pytest.approx(268.37, abs=0.005)
    assert {record.input_tokens for record in records} == {None}


def test_a_verify_step_costs_1_90_plain_steps(serial: dict[str, Run]) -> None:
    steps = imported(serial["sglang-eagle3"]).samples["step_ms"]
    assert (round(min(steps), 1), round(max(steps), 1)) == (43.0, 43.4)
    plain = fmean(imported(serial["sglang"]).samples["step_ms"])
    assert round(plain, 1) == 22.7
    assert round(fmean(steps) / plain, 2) == 1.90
    findings = imported(serial["sglang-eagle3"]).findings
    assert any("costs 1.90 times" in finding for finding in findings)


def test_accept_length_alone_tells_the_eleven_prompts_apart(serial: dict[str, Run]) -> None:
    why = compare(serial["sglang"], serial["sglang-eagle3"]).why
    assert why is not None
    assert why.fit is not None
    assert (why.fit.prompts, round(why.fit.step_ms, 1)) == (11, 43.2)
    assert why.fit.r2 == pytest.approx(0.9998**2, abs=3e-4)
    assert why.fit.residual_rms < 0.005
    assert abs(why.fit.worst_residual) < 0.005


def test_accept_length_and_draft_tokens(serial: dict[str, Run]) -> None:
    found = imported(serial["sglang-eagle3"])
    assert found.figures["speculation.accept_length"] == pytest.approx(3.87, abs=0.005)
    assert len(found.samples["accept_length"]) == 11
    assert any("N = 59 to 61 draft tokens" in finding for finding in found.findings)
    assert "accept_length" not in imported(serial["sglang"]).samples


def test_other_prompts_in_the_two_vllm_runs_are_told(serial: dict[str, Run]) -> None:
    plain, spec = (" ".join(imported(serial[name]).findings) for name in ("vllm", "vllm-eagle3"))
    assert "Of 10 requests here and 11 in “vllm + nothing”, 0 have an input length" in spec
    assert "cannot be paired" not in plain
    assert "in 10 of 10 lines one pair of integers alone fits" in spec


def test_decode_only_and_end_to_end_speeds_are_told_apart(serial: dict[str, Run]) -> None:
    assert "decoding alone" in imported(serial["sglang"]).definitions["tps_decode"]
    assert "prefill included" in imported(serial["vllm"]).definitions["tps_e2e"]


def test_two_blocks_are_two_runs(sharegpt: list[Run]) -> None:
    assert [(imported(run).label, run.header.server.name) for run in sharegpt] == [
        ("实验结果（Eagle-3的后端）", "sglang-eagle3"),
        ("普通后端的实验结果", "sglang"),
    ]
    assert {imported(run).version for run in sharegpt} == {"0.4.9 to 0.5.3"}
    assert {run.header.plan.load for run in sharegpt} == {Load(kind="open")}


def test_figures_of_the_headerless_block(sharegpt: list[Run]) -> None:
    figures = imported(sharegpt[0]).figures
    expected = {
        "requests.ok": 500,
        "duration_s": 260.11,
        "input_tokens": 153555,
        "output_tokens": 91009,
        "output_tokens_retokenized": 90988,
        "throughput.request_per_s": 1.92,
        "throughput.input_tok_per_s": 590.34,
        "throughput.output_tok_per_s": 349.88,
        "throughput.total_tok_per_s": 940.22,
        "concurrency.mean": 222.31,
        "speculation.accept_length": 2.80,
        "e2e_ms.mean": 115649.44,
        "e2e_ms.p50": 116933.77,
        "ttft_ms.mean": 95819.59,
        "ttft_ms.p50": 99399.37,
        "ttft_ms.p99": 197118.52,
        "itl_ms.mean": 109.55,
        "itl_ms.p50": 77.51,
        "itl_ms.p95": 293.54,
        "itl_ms.p99": 433.00,
        "itl_ms.max": 3256.63,
    }
    assert {name: figures[name] for name in expected} == expected
    assert "requests.failed" not in figures  # sglang prints no such count


def test_decoding_concurrency(sharegpt: list[Run]) -> None:
    decoding = [imported(run).figures["concurrency.decoding_mean"] for run in sharegpt]
    assert [round(value or 0, 1) for value in decoding] == [38.1, 130.2]


def test_the_eagle3_server_was_capped(sharegpt: list[Run]) -> None:
    findings = [" ".join(imported(run).findings) for run in sharegpt]
    assert "The EAGLE3 server was capped" in findings[0]
    assert "only 38.1 decoded at a time" in findings[0]
    assert "83% of the mean latency" in findings[0]
    assert "capped" not in findings[1]


def test_the_notes_claim_of_a_speedup_is_contradicted(sharegpt: list[Run]) -> None:
    findings = [" ".join(imported(run).findings) for run in sharegpt]
    assert "349.88 tok/s, 0.298 times the 1174.22" in findings[0]
    assert "One request decoded at 9.13 tok/s" in findings[0]
    assert "One request decoded at 8.96 tok/s" in findings[1]


def test_printed_figures_agree_with_each_other(sharegpt: list[Run]) -> None:
    findings = " ".join(imported(sharegpt[1]).findings)
    assert "concurrency 215.58 agrees with the other figures: 215.56" in findings
    assert "111.55 agrees with the other figures: 111.54" in findings


def test_lines_under_one_heading_stay_one_run_around_prose() -> None:
    bar = "[00:27<00:00, 27.20s/it, est. speed input: 103.04 toks/s, output: 42.86 toks/s]"
    [run] = import_text(f"## vLLM\n{bar}\nthat was the first, and now:\n{bar}\n", "n.md")
    assert len(run.records) == 2


def test_a_new_heading_parts_lines_of_one_kind() -> None:
    line = "Generation time: 2.0s for 100 tokens, speed: 50.0 tokens/s"
    plain, eagle = import_text(
        f"# transformers (baseline, greedy)\n{line}\n# transformers + EAGLE-3\n{line} {line}", "n"
    )
    assert (plain.header.server.name, len(plain.records)) == ("transformers", 1)
    assert (eagle.header.server.name, len(eagle.records)) == ("transformers-eagle3", 2)


def test_second_block_under_a_heading_is_numbered() -> None:
    note = "vllm + eagle3\n" + "\n\nand again\n".join([VLLM_BLOCK] * 2)
    assert [imported(run).label for run in import_text(note, "n")] == [
        "vllm + eagle3",
        "vllm + eagle3 (2)",
    ]


VLLM_BLOCK = """Successful requests: 5
Failed requests: 1
Benchmark duration (s): 10.00
Total input tokens: 50
Total generated tokens: 100
"""


def test_text_without_anything_known_is_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match=r"^day\.txt: nothing to import .*SGLang") as caught:
        import_text("Dear diary,\nTotal input tokens: 5\n", "day.txt")
    assert "\n" not in str(caught.value)
