import pytest

from bench_client.imports.engine_logs import log_accept_length
from bench_client.imports.sglang_log import decode_lines
from bench_client.imports.vllm_log import engine_lines, spec_lines
from tests.imports.fixtures import text

# One line of every spelling: (line, running, tokens, accept length, accept rate, graph, tok/s).
SPELLINGS = {
    "0.4.4": (
        (
            "[2025-03-13 05:11:07] Decode batch. #running-req: 1, #token: 377, token usage: 0.46, "
            "accept len: 2.80, gen throughput (token/s): 98.70, largest-len: 512, #queue-req: 3, "
        ),
        (1, 377, 2.80, None, None, 98.70, 3),
    ),
    "0.4.9": (
        (
            "[2025-07-01 05:11:07 TP0] Decode batch. #running-req: 12, #token: 5012, token usage: "
            "0.61, cuda graph: True, gen throughput (token/s): 543.84, #queue-req: 0"
        ),
        (12, 5012, None, None, True, 543.84, 0),
    ),
    "0.5.3": (
        (
            "[2025-10-01 05:11:07 DP1 TP0] Decode batch. #running-req: 2, #token: 9, token usage: "
            "0.00, accept len: 3.45, cuda graph: False, gen throughput (token/s): 0.39, "
            "#queue-req: 7, "
        ),
        (2, 9, 3.45, None, False, 0.39, 7),
    ),
    "0.5.5, hybrid, CPU": (
        (
            "Decode batch [1234], #running-req: 1, #full token: 669, full token usage: 0.02, "
            "#swa token: 12, swa token usage: 0.00, accept len: 2.00, accept rate: 0.50, "
            "cpu graph: False, gen throughput (token/s): 32.64, #queue-req: 0"
        ),
        (1, 669, 2.00, 0.50, False, 32.64, 0),
    ),
    "0.5.10, NPU": (
        (
            "Decode batch, #running-req: 1, #token: 3778, token usage: 0.46, accept len: 3.45, "
            "accept rate: 0.06, npu graph: True, gen throughput (token/s): 80.28, #queue-req: 0"
        ),
        (1, 3778, 3.45, 0.06, True, 80.28, 0),
    ),
    "0.5.23 with everything": (
        (
            "[2026-11-30 15:34:13] Decode batch, #running-req: 4, #token: 1006, token usage: 0.00, "
            "accept len: 3.08, accept rate: 0.07, cap len: 9.00, block accept len: 1.50, "
            "pre-allocated usage: 0.10, #prealloc-req: 5, #transfer-req: 6, #retracted-req: 0, "
            "cuda graph: True, gen throughput (token/s): 311.80, #queue-req: 2, "
            "est. decode TFLOPS/s (per GPU): 12.34, est. read BW (GB/s per GPU): 1.00"
        ),
        (4, 1006, 3.08, 0.07, True, 311.80, 2),
    ),
}


@pytest.mark.parametrize("version", SPELLINGS)
def test_decode_line_of_every_version(version: str) -> None:
    line, expected = SPELLINGS[version]
    [found] = decode_lines(line)
    assert expected == (
        found.running,
        found.tokens,
        found.accept_length,
        found.accept_rate,
        found.graph,
        found.gen_tok_per_s,
        found.queued,
    )


def test_decode_lines_pasted_in_one_line_before_prose() -> None:
    # The last number runs straight into a Chinese sentence.
    lines = decode_lines(text("notes/qwen3-8b-serial-prompts.txt"))
    assert len(lines) == 22
    assert lines[10].gen_tok_per_s == 43.84
    assert (lines[21].accept_length, lines[21].gen_tok_per_s) == (3.65, 84.59)


def test_decode_line_wrapped_by_a_terminal() -> None:
    line, _ = SPELLINGS["0.5.10, NPU"]
    wrapped = line.replace("0.46, ", "0.46,\n").replace("npu graph", "npu\ngraph")
    [found] = decode_lines(wrapped)
    assert (found.accept_length, found.graph, found.queued) == (3.45, True, 0)


def test_a_decode_line_cut_before_its_throughput_is_none() -> None:
    line, _ = SPELLINGS["0.5.3"]
    assert decode_lines(line[: line.index("gen")] + "\n" + "x" * 2000) == []


def test_step_time_of_a_batch_is_of_one_iteration() -> None:
    # 4 requests, 3.08 tokens each, 311.8 tok/s for all of them.
    [found] = decode_lines(SPELLINGS["0.5.23 with everything"][0])
    assert found.tps_decode == pytest.approx(77.95)
    assert found.step_ms == pytest.approx(1000 * 4 * 3.08 / 311.80)


def test_throughput_after_a_prefill_is_marked() -> None:
    lines = decode_lines(text("engine_logs/sglang-0.5.16-eagle3.log"))
    assert [i for i, line in enumerate(lines) if line.after_prefill] == [0, 19]


@pytest.mark.parametrize(
    ("log", "accept_length", "tolerance"),
    [
        # The engines' own counters: 4000 tokens in 1566 verify steps; 1566 drafts, 2432 accepted.
        ("sglang-0.5.16-eagle3", 4000 / 1566, 0.005),
        ("vllm-0.24.0-eagle3", 1 + 2432 / 1566, 1e-12),
        # Two requests of 600 tokens, 195 verify steps each; the third line set is the tail.
        ("sglang-0.5.16-eagle3-tree", 600 / 195, 0.03),
    ],
)
def test_log_accept_length_of_real_servers(
    log: str, accept_length: float, tolerance: float
) -> None:
    assert log_accept_length(text(f"engine_logs/{log}.log")) == pytest.approx(
        accept_length, abs=tolerance
    )


def test_log_accept_length_weights_sglang_lines_by_running_requests() -> None:
    line = (
        "Decode batch, #running-req: {}, #token: 1, token usage: 0.1, accept len: {}, "
        "cuda graph: True, gen throughput (token/s): 9.9, #queue-req: 0\n"
    )
    assert log_accept_length(line.format(1, 2.0) + line.format(3, 4.0)) == pytest.approx(3.5)


@pytest.mark.parametrize("log", ["", "no line of an engine\n", SPELLINGS["0.4.9"][0]])
def test_log_accept_length_is_unknown_without_speculation(log: str) -> None:
    assert log_accept_length(log) is None


OLD_V1 = (
    "INFO 05-01 [metrics.py:41] SpecDecoding metrics: Draft acceptance rate: 88.8%, "
    "Mean acceptance length: 2.78, Accepted: 888 tokens, Drafted: 1000 tokens, "
    "Per-position acceptance rate: 0.908, 0.868"
)
OLDEST_V1 = (
    "SpecDecoding metrics: Draft acceptance rate: 88.8%, Accepted: 888 tokens, Drafted: 1000 tokens"
)
V0 = (
    "INFO 10-16 19:05:47 metrics.py:367] Speculative metrics: Draft acceptance rate: 0.642, "
    "System efficiency: 0.598, Number of speculative tokens: 3, Number of accepted tokens: 8547, "
    "Number of draft tokens: 13311, Number of emitted tokens: 10616."
)


def test_old_spelling_of_vllm_v1() -> None:
    [line] = spec_lines(OLD_V1)
    assert (line.accepted, line.drafted, line.per_position) == (888, 1000, (0.908, 0.868))
    assert line.verify_steps == 500
    assert log_accept_length(OLD_V1) == pytest.approx(1 + 888 / 500)


def test_oldest_vllm_v1_tells_no_accept_length() -> None:
    assert spec_lines(OLDEST_V1)[0].accepted == 888
    assert log_accept_length(OLDEST_V1) is None


def test_vllm_v0_counts_since_its_start() -> None:
    # System efficiency is emitted / (drafts (K + 1)).
    assert log_accept_length(V0) == pytest.approx(0.598 * 4, abs=0.003)
    later = V0.replace("13311", "16311").replace("10616", "13616")
    assert log_accept_length(f"{V0}\n{later}") == pytest.approx(3000 / (3000 / 3))


def test_vllm_means_without_draft_length_are_weighted_by_drafted_tokens() -> None:
    line = (
        "SpecDecoding metrics: Mean acceptance length: {}, Accepted: {} tokens, Drafted: {} tokens"
    )
    log = line.format("1.00", 0, 300) + "\n" + line.format("3.00", 200, 300)
    assert log_accept_length(log) == pytest.approx(2.0)


def test_draft_length_that_varies_is_not_taken_from_the_positions() -> None:
    # Three positions, but most drafts were of one token: the printed mean gives the steps.
    [line] = spec_lines(
        "SpecDecoding metrics: Mean acceptance length: 1.50, Accepted: 100 tokens, "
        "Drafted: 240 tokens, Per-position acceptance rate: 0.450, 0.040, 0.010"
    )
    assert line.verify_steps == pytest.approx(200)


def test_vllm_line_of_nothing_drafted() -> None:
    log = (
        "SpecDecoding metrics: Mean acceptance length: nan, Accepted: 0 tokens, Drafted: 0 tokens, "
        "Per-position acceptance rate: nan, nan, Avg Draft acceptance rate: nan%"
    )
    assert spec_lines(log)[0].mean_accept_length is None
    assert log_accept_length(log) is None


def test_vllm_engine_lines_of_v1_and_v0() -> None:
    v1 = engine_lines(text("engine_logs/vllm-0.32.0-eagle3-cpu.log"))
    assert [(x.engine, x.generation_tok_per_s, x.running, x.waiting) for x in v1] == [
        (0, 7.7, 1, 0)
    ]
    [v0] = engine_lines(
        "INFO 08-27 metrics.py:406] Avg prompt throughput: 0.5 tokens/s, "
        "Avg generation throughput: 75.3 tokens/s, Running: 6 reqs, Swapped: 0 reqs, "
        "Pending: 2 reqs, GPU KV cache usage: 9.2%, CPU KV cache usage: 0.0%."
    )
    assert (v0.engine, v0.prompt_tok_per_s, v0.generation_tok_per_s) == (None, 0.5, 75.3)
    assert (v0.running, v0.waiting, v0.kv_cache_pct) == (6, 2, 9.2)
