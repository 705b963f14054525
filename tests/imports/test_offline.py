import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_client.imports.notes import import_text
from bench_client.imports.offline import Bar, bars, timings, token_counts
from tests.imports.fixtures import imported

BAR = "[00:{:02.0f}<00:00, {}, est. speed input: {:.2f} toks/s, output: {:.2f} toks/s]"


def bar_of(inputs: int, outputs: int, seconds: float) -> Bar:
    pace = f"{seconds:.2f}s/it" if seconds >= 1 else f"{1 / seconds:.2f}it/s"
    [bar] = bars(BAR.format(seconds % 60, pace, inputs / seconds, outputs / seconds))
    return bar


@given(inputs=st.integers(1, 20000), outputs=st.integers(1, 8000), seconds=st.floats(0.05, 600))
def test_recovered_counts_are_the_true_ones_or_null(
    inputs: int, outputs: int, seconds: float
) -> None:
    found_in, found_out, elapsed = token_counts(bar_of(inputs, outputs, seconds))
    assert found_in in (inputs, None)
    assert found_out in (outputs, None)
    assert elapsed == pytest.approx(seconds, rel=0.1)


def test_the_first_line_of_the_note() -> None:
    text = "[00:27<00:00, 27.20s/it, est. speed input: 103.04 toks/s, output: 42.86 toks/s]"
    inputs, outputs, elapsed = token_counts(bars(text)[0])
    assert (inputs, outputs) == (2803, 1166)
    assert elapsed == pytest.approx(27.203, abs=0.001)


def test_counts_that_are_not_unique_are_null_but_the_speed_stays() -> None:
    # 0.01 it/s is anything from 67 s to 200 s.
    text = "[02:00<00:00, 0.01it/s, est. speed input: 1.00 toks/s, output: 10.00 toks/s]"
    assert token_counts(bars(text)[0])[:2] == (None, None)
    [run] = import_text(text, "n")
    assert run.records[0].output_tokens is None
    assert run.records[0].token_count_source is None
    assert imported(run).samples["tps_e2e"] == (10.00,)


def test_earlier_states_of_a_bar_are_left_out() -> None:
    states = (
        "Processed prompts:   0%|  | 0/1 [00:00<?, ?it/s, est. speed input: 0.00 toks/s, "
        "output: 0.00 toks/s]\r"
        "Processed prompts: 100%|##| 1/1 [00:27<00:00, 27.20s/it, est. speed input: 103.04 toks/s, "
        "output: 42.86 toks/s]"
    )
    assert len(bars(states)) == 1


def test_a_bar_over_several_prompts_gives_rates_alone() -> None:
    states = (
        "Processed prompts:   9%|  | 1/11 [00:07<01:10, 7.00s/it, est. speed input: 9.00 toks/s, "
        "output: 20.00 toks/s]\r"
        "Processed prompts: 100%|##| 11/11 [00:27<00:00, 2.50s/it, "
        "est. speed input: 1103.04 toks/s, output: 442.86 toks/s]"
    )
    [run] = import_text(states, "n")
    assert run.records == ()
    assert imported(run).samples == {}
    assert imported(run).figures == {
        "requests.ok": 11,
        "throughput.input_tok_per_s": 1103.04,
        "throughput.output_tok_per_s": 442.86,
    }


def test_hours_in_a_bar() -> None:
    text = "[1:00:27<00:00, 3627.20s/it, est. speed input: 1.00 toks/s, output: 42.86 toks/s]"
    elapsed = bars(text)[0].elapsed
    assert (elapsed.lo, elapsed.hi) == pytest.approx((3627.195, 3627.205))


def test_eagle_lines() -> None:
    [line] = timings("Generation time: 19.689866304397583s for 1128 tokens, speed: 57.28 tokens/s")
    assert (line.seconds, line.tokens) == (19.689866304397583, 1128)
