"""SGLang's log where it runs more than one rank."""

import pytest

from bench_client.imports.engine_logs import log_accept_length
from bench_client.imports.notes import import_text
from bench_client.imports.sglang_log import decode_lines
from bench_client.records import Load, Run
from tests.imports.fixtures import imported

DECODE = (
    "[2026-11-30 15:34:11{ranks}] Decode batch, #running-req: {running}, #token: 669, "
    "token usage: 0.00, accept len: {length:.2f}, cuda graph: True, "
    "gen throughput (token/s): {rate:.2f}, #queue-req: 0\n"
)
PREFILL = (
    "[2026-11-30 15:34:10{ranks}] Prefill batch, #new-seq: 1, #new-token: 100, #queue-req: 0\n"
)


def decode(ranks: str, running: int, rate: float, length: float = 2.0) -> str:
    return DECODE.format(ranks=ranks, running=running, rate=rate, length=length)


def prefill(ranks: str) -> str:
    return PREFILL.format(ranks=ranks)


def one(log: str) -> Run:
    [run] = import_text(log, "n")
    return run


# Both ranks prefill, then rank 1 logs first each time; the first line of each spans its prefill.
ROUND = (
    prefill(" DP0 TP0")
    + prefill(" DP1 TP4")
    + decode(" DP1 TP4", 3, 5.0, 3.0)
    + decode(" DP0 TP0", 1, 5.0)
    + decode(" DP1 TP4", 3, 150.0, 3.0)
    + decode(" DP0 TP0", 1, 50.0)
)


def test_a_prefill_is_that_of_its_own_rank() -> None:
    lines = decode_lines(ROUND * 2)
    assert [(line.dp, line.inner) for line in lines[:2]] == [(1, "TP4"), (0, "TP0")]
    assert [line.after_prefill for line in lines] == [True, True, False, False] * 2
    [other] = decode_lines(prefill(" DP1") + decode(" DP0", 1, 50.0))
    assert not other.after_prefill


def test_requests_of_all_ranks_decode_at_a_time() -> None:
    run = one(ROUND * 2)
    found = imported(run)
    assert found.samples["tps_decode"] == (50.0,) * 4
    assert found.figures["log_lines"] == 8
    assert found.figures["concurrency.decoding_mean"] == 4
    assert run.header.plan.load == Load(kind="closed", concurrency=4)
    assert any("of 2 data-parallel ranks" in line for line in found.findings)
    assert any("4 of 8 lines come right after a prefill" in line for line in found.findings)


def test_a_rank_whose_batch_varies_leaves_the_load_unknown() -> None:
    run = one(ROUND + decode(" DP0 TP0", 2, 100.0))
    assert run.header.plan.load == Load(kind="closed")
    assert imported(run).figures["concurrency.decoding_mean"] == pytest.approx(3 + 4 / 3)


@pytest.mark.parametrize("others", [(" DP0 TP1", " DP1 TP5"), (" DP0 PP1 TP0", " DP1 PP1 TP4")])
def test_ranks_of_one_batch_count_once(others: tuple[str, str]) -> None:
    again = ROUND.replace(" DP0 TP0", others[0]).replace(" DP1 TP4", others[1])
    [run, alone] = [one(ROUND + again), one(ROUND)]
    assert imported(run).figures == imported(alone).figures
    assert imported(run).samples == imported(alone).samples
    assert run.header.plan.load == alone.header.plan.load
    assert any("4 lines of further TP or PP ranks" in line for line in imported(run).findings)


def test_tp_ranks_without_data_parallelism_count_once() -> None:
    log = decode(" TP0", 2, 100.0) + decode(" TP1", 2, 100.0)
    assert imported(one(log)).figures["log_lines"] == 1
    assert one(log).header.plan.load == Load(kind="closed", concurrency=2)


def test_accept_length_over_ranks_is_weighted_by_their_requests() -> None:
    # (3 requests at 3.0 and 1 at 2.0, twice); rank 0's second TP rank must add nothing.
    assert log_accept_length(ROUND) == pytest.approx(2.75)
    assert log_accept_length(ROUND + decode(" DP0 TP1", 1, 50.0)) == pytest.approx(2.75)


def test_lines_pasted_without_their_prefix_are_kept() -> None:
    bare = decode(" TP0", 1, 50.0) + decode("", 1, 50.0).partition("] ")[2]
    assert imported(one(bare)).figures["log_lines"] == 2
