import pytest

from bench_client.imports.notes import import_text
from bench_client.records import Load
from tests.imports.fixtures import imported, runs, text


def test_sglang_log_leaves_out_speeds_that_span_a_prefill() -> None:
    [run] = runs("engine_logs/sglang-0.5.16-eagle3.log")
    found = imported(run)
    assert len(found.samples["accept_length"]) == 39
    assert len(found.samples["tps_decode"]) == len(found.samples["step_ms"]) == 37
    assert min(found.samples["tps_decode"]) > 150  # the first line says 36.77
    assert any("2 of 39 lines come right after a prefill" in line for line in found.findings)
    assert run.header.plan.load == Load(kind="closed", concurrency=1)
    assert run.header.server.name == "sglang-speculative"


def test_draft_tokens_follow_from_the_accept_rate() -> None:
    # A chain of 3 drafts: the rate of 0.5.16 is (accept len - 1) / 3.
    [run] = runs("engine_logs/sglang-0.5.16-eagle3.log")
    sentence = "Every accept rate is (accept len - 1) / (N - 1) with N = 4 draft tokens."
    assert sentence in imported(run).findings


def test_both_formulas_are_named_where_both_fit() -> None:
    # 32 draft tokens in truth.
    [run] = runs("engine_logs/sglang-0.5.16-eagle3-tree.log")
    [sentence] = [line for line in imported(run).findings if "accept rate" in line]
    assert "accept len / N with N = 42 to 46" in sentence
    assert "(accept len - 1) / (N - 1) with N = 31 to 32" in sentence


def test_lines_without_a_graph_are_told() -> None:
    log = text("engine_logs/sglang-0.5.16-eagle3.log").replace(
        "cuda graph: True, gen throughput (token/s): 329.47",
        "cuda graph: False, gen throughput (token/s): 329.47",
    )
    [run] = import_text(log, "n")
    assert any("1 of 39 lines ran without a CUDA graph" in x for x in imported(run).findings)


def test_batch_of_varying_size() -> None:
    line = (
        "Decode batch, #running-req: {}, #token: 1, token usage: 0.1, cuda graph: True, "
        "gen throughput (token/s): {}, #queue-req: 0\n"
    )
    [run] = import_text(line.format(1, 50.0) + line.format(4, 160.0), "n")
    assert run.header.plan.load == Load(kind="closed")
    assert imported(run).figures == {"log_lines": 2, "concurrency.decoding_mean": 2.5}
    assert imported(run).samples == {"tps_decode": (50.0, 40.0), "step_ms": (20.0, 25.0)}


def test_vllm_log() -> None:
    [run] = runs("engine_logs/vllm-0.24.0-eagle3.log")
    figures = imported(run).figures
    assert figures["speculation.verify_steps"] == 1566
    assert figures["speculation.accepted_tokens"] == 2432
    assert figures["speculation.draft_tokens"] == 4698
    assert figures["speculation.accept_length"] == pytest.approx(1 + 2432 / 1566)
    # By position, weighted by steps: they sum to the accepted tokens of a step.
    total = sum(figures[f"speculation.per_position_pct.{i}"] or 0 for i in range(3))
    assert total / 100 == pytest.approx(2432 / 1566, abs=0.002)
    assert figures["log_generation_tok_per_s.max"] == 280.3
    assert imported(run).samples == {"accept_length": (2.55, 2.56)}


def test_vllm_log_of_a_plain_server() -> None:
    lines = text("engine_logs/vllm-0.24.0-eagle3.log").splitlines()
    plain = "\n".join(line for line in lines if "SpecDecoding" not in line)
    [run] = import_text(plain, "n")
    assert imported(run).figures == {"log_lines": 2, "log_generation_tok_per_s.max": 280.3}
    assert run.header.server.name == "vllm"
