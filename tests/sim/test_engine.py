"""The pure model: what is said, in which steps, and how speculation pays."""

from statistics import mean, stdev

import pytest

from bench_client.sim.engine import CACHE_BLOCK, PREFILL_BUDGET, Engine, Step
from bench_client.sim.payloads import texts
from bench_client.sim.sequence import EngineSettings, Prompt, Sampling, Sequence
from bench_client.sim.vocabulary import language_of, tokenize

EN = "Explain how a server batches requests"
ZH = "请解释服务器如何把请求合并成批次"


def prompt(text: str = EN) -> Prompt:
    return Prompt(text, tuple(tokenize(text)), language_of(text))


def sequence(settings: EngineSettings, text: str = EN, **sampling: object) -> Sequence:
    defaults = {"max_tokens": 200, "ignore_eos": True}
    return Sequence(prompt(text), Sampling(**(defaults | sampling)), settings)  # type: ignore[arg-type]


def run(
    engine: Engine,
) -> tuple[list[tuple[Step, list[tuple[Sequence, int]]]], dict[Sequence, str]]:
    """All steps until the engine is idle, and each sequence's text."""
    steps, said = [], dict[Sequence, str]()
    while step := engine.begin():
        emissions = engine.finish(step)
        steps.append((step, emissions))
        for seq, count in emissions:
            said[seq] = said.get(seq, "") + texts(seq, count)[0].decode()
    return steps, said


@pytest.mark.parametrize("chain", [1, 5])
@pytest.mark.parametrize("p", [0.0, 0.335, 0.855, 1.0])
def test_mean_accept_length_follows_the_formula(p: float, chain: int) -> None:
    settings = EngineSettings(speculative=True, spec_steps=chain, accept_en=p)
    engine = Engine(settings)
    seq = sequence(settings, max_tokens=20_000)
    engine.submit(seq)
    run(engine)
    expected = chain + 1 if p == 1 else (1 - p ** (chain + 1)) / (1 - p)
    assert 1 + seq.accepted / seq.verify_steps == pytest.approx(expected, rel=0.04)
    assert (20_000 - 1) / seq.verify_steps == pytest.approx(expected, rel=0.04)


@pytest.mark.parametrize(("text", "expected"), [(EN, 4.2), (ZH, 1.5)])
def test_default_accept_lengths(text: str, expected: float) -> None:
    settings = EngineSettings(speculative=True)
    engine = Engine(settings)
    seq = sequence(settings, text, max_tokens=20_000)
    engine.submit(seq)
    run(engine)
    assert 1 + seq.accepted / seq.verify_steps == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("text", [EN, ZH])
def test_greedy_text_does_not_depend_on_speculation_batch_or_seed(text: str) -> None:
    said = set()
    for speculative, others, seed in ((False, 0, 1), (True, 0, 2), (True, 6, 3), (False, 6, None)):
        settings = EngineSettings(speculative=speculative, seed=others)
        engine = Engine(settings)
        for i in range(others):
            engine.submit(sequence(settings, f"{EN} {i}"))
        seq = sequence(settings, text, max_tokens=300, seed=seed)
        engine.submit(seq)
        said.add(run(engine)[1][seq])
    assert len(said) == 1
    assert len(said.pop()) > 300


def test_seed_changes_the_answer_above_temperature_zero_only() -> None:
    settings = EngineSettings()
    greedy = {sequence(settings, seed=s).start for s in range(9)}
    sampled = [sequence(settings, seed=s, temperature=0.6).start for s in range(9)]
    assert len(greedy) == 1
    assert len(set(sampled)) > 1
    assert sampled == [sequence(settings, seed=s, temperature=1.0).start for s in range(9)]


def test_answers_end_by_themselves_unless_told_otherwise() -> None:
    settings = EngineSettings()
    lengths = []
    for i in range(200):
        seq = sequence(settings, f"{EN} {i}", max_tokens=30_000, ignore_eos=False)
        assert seq.finish_reason == "stop"
        lengths.append(seq.length)
    assert 400 <= min(lengths) < 500
    assert 1900 < max(lengths) <= 2000
    short = sequence(settings, max_tokens=100, ignore_eos=False)
    assert (short.length, short.finish_reason) == (100, "length")
    ignoring = sequence(settings, max_tokens=30_000)
    assert (ignoring.length, ignoring.finish_reason) == (30_000, "length")


def test_first_token_comes_from_the_prefill_and_the_last_block_counts_whole() -> None:
    settings = EngineSettings(speculative=True, accept_en=1.0, spec_steps=5)
    engine = Engine(settings)
    seq = sequence(settings, max_tokens=10)
    engine.submit(seq)
    steps, _ = run(engine)
    assert [(step.kind, [n for _, n in out]) for step, out in steps] == [
        ("prefill", [1]),
        ("decode", [6]),
        ("decode", [3]),
    ]
    assert seq.histogram == [0, 0, 0, 0, 0, 2]
    assert engine.counters.accepted_per_position == [2] * 5
    assert engine.counters.generation_tokens == engine.counters.finished_tokens == 10


def test_one_token_answers_never_decode() -> None:
    settings = EngineSettings(speculative=True)
    engine = Engine(settings)
    seq = sequence(settings, max_tokens=1)
    engine.submit(seq)
    steps, _ = run(engine)
    assert [step.kind for step, _ in steps] == ["prefill"]
    assert seq.verify_steps == 0


def decode_ms(settings: EngineSettings, n: int) -> float:
    engine = Engine(settings)
    for i in range(n):
        engine.submit(sequence(settings, f"{EN} {i}", max_tokens=100))
    steps, _ = run(engine)
    full = [s.duration_ns for s, _ in steps if s.kind == "decode" and len(s.sequences) == n]
    return mean(full) / 1e6


def test_speculation_pays_alone_and_costs_in_a_crowd() -> None:
    plain = EngineSettings(jitter=0.0)
    speculative = EngineSettings(jitter=0.0, speculative=True)
    assert decode_ms(plain, 1) == pytest.approx(22.7)
    assert decode_ms(speculative, 1) == pytest.approx(43.2)
    speedup = {n: 4.2 * decode_ms(plain, n) / decode_ms(speculative, n) for n in (1, 8, 16, 40)}
    assert speedup[1] > 2
    assert speedup[8] > 1 > speedup[16] > speedup[40]
    assert 1.5 * decode_ms(plain, 1) / decode_ms(speculative, 1) < 1  # Chinese never gains


def test_cap_makes_the_rest_wait_in_order() -> None:
    settings = EngineSettings(max_running_requests=2)
    engine = Engine(settings)
    sequences = [sequence(settings, f"{EN} {i}", max_tokens=5) for i in range(5)]
    for seq in sequences:
        engine.submit(seq)
    steps, _ = run(engine)
    assert max(len(step.sequences) for step, _ in steps) == 2
    joined = [seq for step, _ in steps if step.kind == "prefill" for seq in step.sequences]
    assert joined == sequences


def test_prefill_goes_first_takes_its_time_and_is_cut_at_the_budget() -> None:
    settings = EngineSettings(jitter=0.0)
    engine = Engine(settings)
    engine.submit(sequence(settings, max_tokens=50))
    long = [sequence(settings, f"{i} " + "word " * 4999, max_tokens=2) for i in range(2)]
    first = engine.begin()
    assert first is not None
    assert first.duration_ns == 22_700_000  # a short prefill still reads all the weights
    engine.finish(first)
    for seq in long:
        engine.submit(seq)
    assert 5000 < PREFILL_BUDGET < 10_000
    for seq in long:
        step = engine.begin()
        assert step is not None
        assert (step.kind, step.sequences) == ("prefill", (seq,))
        assert step.duration_ns == pytest.approx(5000 / 6000 * 1e9)
        engine.finish(step)


def test_abort_drops_waiting_and_running_sequences() -> None:
    settings = EngineSettings(max_running_requests=2)
    engine = Engine(settings)
    a, b, c = (sequence(settings, f"{EN} {i}", max_tokens=3) for i in range(3))
    for seq in (a, b, c):
        engine.submit(seq)
    step = engine.begin()
    assert step is not None
    engine.abort(a)  # while it is being computed
    engine.abort(c)
    assert [seq for seq, _ in engine.finish(step)] == [b]
    _, said = run(engine)
    assert set(said) == {b}
    assert engine.counters.finished_requests == 2  # c never ran


def test_same_seed_same_run_and_jitter_of_the_size_asked_for() -> None:
    def durations(seed: int) -> list[int]:
        settings = EngineSettings(jitter=0.05, seed=seed, speculative=True)
        engine = Engine(settings)
        engine.submit(sequence(settings, max_tokens=4000))
        return [step.duration_ns for step, _ in run(engine)[0]]

    once = durations(3)
    assert once == durations(3) != durations(4)
    assert stdev(once[1:]) / mean(once[1:]) == pytest.approx(0.05, rel=0.15)


def test_prefix_cache_spares_the_prefill_of_what_is_known() -> None:
    settings = EngineSettings(prefix_cache=True)
    engine = Engine(settings)
    same = "one two three four " * 100
    cached = []
    for text in (same, same, same + "and more", "zero " + same):
        seq = sequence(settings, text, max_tokens=1)
        engine.submit(seq)
        run(engine)
        cached.append(seq.cached_tokens)
    assert cached == [0, 399, 400, 0]  # whole blocks, and at least one token is computed
    assert 400 % CACHE_BLOCK == 0
    assert engine.counters.cached_tokens == 799
    engine.cache.clear()
    again = sequence(settings, same, max_tokens=1)
    engine.submit(again)
    run(engine)
    assert again.cached_tokens == 0
