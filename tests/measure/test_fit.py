"""Whether accept length ÷ step time gives each prompt's decode rate."""

import pytest

from bench_client.measure.compare import compare
from bench_client.measure.fit import fit
from bench_client.records import RequestRecord, Run

from .arms import arm, speculative
from .published import SGLANG, SGLANG_ACCEPT, SGLANG_EAGLE3
from .runs import answer, imported, run, told

ACCEPTS = (2, 3, 4, 5)


def stepped(index: int, accept: int, step_ms: float = 40, repeat: int = 0) -> RequestRecord:
    """60 tokens after the first, `accept` a step."""
    steps = 60 // accept
    return answer(
        index,
        gaps=(step_ms,) * steps,
        tokens=(1, *([accept] * steps)),
        accept=told(60, steps),
        repeat=repeat,
    )


def arm_of(*step_ms: float) -> Run:
    return run([stepped(i, accept, step_ms[i]) for i, accept in enumerate(ACCEPTS)])


def test_a_published_run_takes_43_ms_a_step_in_all_eleven_lines() -> None:
    plain = imported({"tps_decode": SGLANG}, label="sglang")
    eagle3 = imported({"tps_decode": SGLANG_EAGLE3, "accept_length": SGLANG_ACCEPT})
    why = compare(plain, eagle3).why
    assert why is not None
    found = why.fit
    assert found is not None
    assert found.prompts == 11
    assert found.step_ms == pytest.approx(43.2, abs=0.1)
    assert found.step_ms == pytest.approx(why.step_ms)
    assert found.r2 == pytest.approx(0.9995, abs=0.0003)
    assert found.spread == pytest.approx(12.32 / 89.71, abs=1e-4)
    assert 0.002 < found.residual_rms < 0.005
    # 71.04 tok/s where 3.08 tokens a step give 71.4.
    assert (found.worst_prompt, found.worst_residual) == (
        "value 4",
        pytest.approx(-0.005, abs=5e-4),
    )
    assert found.sentence == (
        "accept length ÷ 43.2 ms a step explains 99.9% of the difference between prompts "
        "(sd 13.7%); residual 0.3%, largest at value 4 (-0.5%)"
    )


def test_equal_steps_leave_nothing() -> None:
    found = fit(arm_of(40, 40, 40, 40))
    assert found is not None
    assert (found.prompts, found.step_ms, found.r2) == (4, pytest.approx(40), pytest.approx(1))
    assert found.residual_rms == pytest.approx(0)


def test_a_slower_step_is_told_by_the_prompts_name_and_sign() -> None:
    found = fit(arm_of(40, 40, 60, 40))
    assert found is not None
    step_ms = (40 * (30 + 20 + 12) + 60 * 15) / 77  # a prompt weighs as many steps as it took
    assert found.step_ms == pytest.approx(step_ms)
    assert found.worst_prompt == "p2"
    assert found.worst_residual == pytest.approx(step_ms / 60 - 1)
    others = step_ms / 40 - 1
    rms = ((found.worst_residual**2 + 3 * others**2) / 4) ** 0.5
    assert found.residual_rms == pytest.approx(rms)
    assert f"residual {rms:.1%}, largest at p2 (-26.8%): steps do not all take" in found.sentence
    assert found.r2 is not None
    assert found.r2 < 0.9


def test_rates_that_accept_length_does_not_explain() -> None:
    """The same accept length everywhere, but rates differ."""
    found = fit(run([stepped(i, 3, step_ms) for i, step_ms in enumerate((30, 40, 50))]))
    assert found is not None
    assert found.r2 is not None
    assert found.r2 <= 0
    assert "explains 0.0% of the difference" in found.sentence


def test_prompts_that_do_not_differ_have_no_share_to_explain() -> None:
    found = fit(run([stepped(i, 3) for i in range(3)]))
    assert found is not None
    assert found.r2 is None
    assert "the same for every prompt; residual 0.0%" in found.sentence


def test_repeats_of_a_prompt_are_together() -> None:
    pairs = [stepped(i, 3, 30 + 20 * r, repeat=r) for i in range(3) for r in range(2)]
    found = fit(run(pairs))
    assert found is not None
    assert (found.prompts, found.step_ms) == (3, pytest.approx(40))
    assert found.residual_rms == pytest.approx(0)


def test_events_stand_in_where_the_server_counts_no_steps() -> None:
    records = [answer(i, gaps=(40,) * 6, tokens=(1, *([n] * 6))) for i, n in enumerate(ACCEPTS)]
    found = fit(run(records))
    assert found is not None
    assert (found.step_ms, found.r2) == (pytest.approx(40), pytest.approx(1))


def test_first_tokens_out_of_a_step_do_not_bend_the_fit() -> None:
    """EAGLE's own counts them in, while a decode rate leaves the first event out."""
    records = [
        answer(i, gaps=(40,) * n, tokens=(3,) * (n + 1), accept=told(3 * n + 3, n + 1))
        for i, n in enumerate((5, 10, 20))
    ]
    found = fit(run(records))
    assert found is not None
    assert found.step_ms == pytest.approx(40)
    assert found.residual_rms == pytest.approx(0)


@pytest.mark.parametrize(
    "whole",
    [
        run([]),
        run([stepped(0, 2), stepped(1, 3)]),
        run([answer(i, tokens=(1, None, 2, 2)) for i in range(5)]),
        imported({"tps_decode": SGLANG, "accept_length": SGLANG_ACCEPT[:3]}),
    ],
)
def test_too_little_to_fit(whole: Run) -> None:
    assert fit(whole) is None


def test_it_is_part_of_why() -> None:
    why = compare(arm(), speculative()).why
    assert why is not None
    assert why.fit == fit(speculative())
    assert compare(arm(), arm()).why is None
