"""Counting prompts, telling languages apart, and text that stands in JSON as it is."""

import json

import pytest

from bench_client.sim.vocabulary import TAPE_LENGTH, TOKENS, language_of, tape, tokenize


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Hello, world!", 4),
        ("你好，世界！", 6),
        ("解释 EAGLE3 的原理", 6),
        ("it's 3.5 tokens", 7),
        ("", 0),
        (" \n\t", 0),
    ],
)
def test_tokenize(text: str, tokens: int) -> None:
    assert len(tokenize(text)) == tokens


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Explain this", "en"),
        ("请解释这个", "zh"),
        ("请解释 speculative decoding 的原理", "zh"),
        ("Translate 你好 into English for me please", "en"),
        ("Überprüfe das “Wort”", "en"),
        ("", "en"),
        ("？！", "en"),
    ],
)
def test_language_of(text: str, language: str) -> None:
    assert language_of(text) == language


@pytest.mark.parametrize("language", ["en", "zh"])
def test_tape_is_text_of_the_vocabulary(language: str) -> None:
    said = tape(language)
    assert len(set(TOKENS)) == len(TOKENS)
    assert len(said.texts) == len(said.ids) == 2 * TAPE_LENGTH
    assert said.texts[:TAPE_LENGTH] == said.texts[TAPE_LENGTH:]
    for text, number in zip(said.texts[:500], said.ids[:500], strict=True):
        assert TOKENS[int(number)] == text.decode()
    joined = b"".join(said.texts)
    assert json.loads(b'"' + joined + b'"') == joined.decode()
    assert language_of(joined.decode()) == language
