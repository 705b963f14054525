"""EaModel's double: its generators' exact protocol over a text that is known beforehand."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from types import SimpleNamespace
from typing import Any

import numpy as np

from server_launchers.eagle_server.model import Engine
from server_launchers.eagle_server.settings import Settings

END, SECOND_END, BEGIN = 256, 257, 258  # the ids below are bytes
VOCABULARY = 259
NOT_SPECIAL = b"<second end>"  # an end token that the tokenizer takes for text
BEHIND = b"behind the end "
TREE = Settings(model="target", draft_model="head", depth=3, top_k=1, total_token=5)


class Tokenizer:
    """A token a byte, so that a Chinese character takes three."""

    def __init__(self) -> None:
        self.eos_token: str | None = "<end>"

    @property
    def eos_token_id(self) -> int | None:
        return END if self.eos_token else None

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [*[BEGIN] * add_special_tokens, *text.encode()]

    def decode(
        self,
        token_ids: Sequence[int],
        skip_special_tokens: bool,
        clean_up_tokenization_spaces: bool,
    ) -> str:
        assert skip_special_tokens
        assert not clean_up_tokenization_spaces
        parts = (
            NOT_SPECIAL if token == SECOND_END else bytes([token])
            for token in token_ids
            if token not in (END, BEGIN)
        )
        return b"".join(parts).decode(errors="replace")

    def apply_chat_template(
        self,
        messages: list[dict[str, str]],
        tokenize: bool,
        add_generation_prompt: bool,
        loud: bool = False,
    ) -> str:
        assert not tokenize
        assert add_generation_prompt
        if messages[0]["role"] == "tool":
            raise ValueError("a tool cannot speak first\nin this template")
        text = "".join(f"<{each['role']}>{each['content']}" for each in messages) + "<assistant>"
        return text.upper() if loud else text


class Torch:
    """What the engine takes of torch."""

    def __init__(self) -> None:
        self.generator = random.Random()

    def tensor(self, data: list[list[int]], device: str) -> Any:
        assert device == "cpu"
        return np.array(data)

    def manual_seed(self, seed: int) -> None:
        self.generator.seed(seed)


def no_pause(step: int) -> None:
    """Called in each step of the double, before its tokens are known."""


@dataclass
class EaModel:
    """Says `text`, then an end token, then what no answer may show.

    `sizes` are the tokens of successive steps, over and over. With a temperature it draws letters
    from both generators that EaModel draws from.
    """

    text: str = ""
    sizes: tuple[int, ...] = (1, 4, 2)
    end: int = END
    pause: Callable[[int], None] = no_pause
    torch: Torch = field(default_factory=Torch)
    steps: int = 0
    closed: int = 0
    prompts: list[list[int]] = field(default_factory=list)
    held: list[Iterator[Any]] = field(default_factory=list)  # none ends for want of references

    def __post_init__(self) -> None:
        self.tokenizer = Tokenizer()
        self.ea_layer = SimpleNamespace(
            total_tokens=TREE.total_token - 1,
            parameters=lambda: iter([np.broadcast_to(np.float16(0), (2**26,))]),
        )
        self.base_model = SimpleNamespace(
            device="cpu",
            dtype="torch.bfloat16",
            parameters=lambda: iter([np.broadcast_to(np.float16(0), (2**28,))] * 3),
            config=SimpleNamespace(max_position_embeddings=4096, vocab_size=VOCABULARY),
            generation_config=SimpleNamespace(
                eos_token_id=[END, SECOND_END], to_diff_dict=lambda: {"top_k": 20}
            ),
        )
        self._cache_length: int | None = None
        self._running = False

    def ea_generate(self, input_ids: Any, **options: Any) -> Iterator[Any]:
        return self._held(self._generate(input_ids, cycle(self.sizes), **options))

    def naive_generate(self, input_ids: Any, **options: Any) -> Iterator[Any]:
        return self._held(self._generate(input_ids, cycle((1,)), **options))

    def _held(self, generator: Iterator[Any]) -> Iterator[Any]:
        self.held.append(generator)
        return generator

    def _generate(
        self,
        input_ids: Any,
        sizes: Iterator[int],
        *,
        temperature: float = 0.0,
        top_p: float = 0.0,
        top_k: float = 0.0,
        max_new_tokens: int = 512,
        max_length: int = 2048,
    ) -> Iterator[Any]:
        assert self._cache_length in (None, max_length), "the first call fixes the KV cache"
        assert not self._running, "interleaved generators corrupt each other"
        self._cache_length, self._running = max_length, True
        self.past_key_values_data = [np.broadcast_to(np.float16(0), (max_length, 2**16))]
        self.prompts.append(input_ids[0].tolist())
        input_len = input_ids.shape[1]
        tokens = self._drawn() if temperature > 1e-5 else self._said()
        new_token = 0
        try:
            for size in sizes:
                self.pause(self.steps)
                self.steps += 1
                block = np.array([list(islice(tokens, size))])
                input_ids = np.concatenate([input_ids, block], axis=1)
                new_token += size
                yield input_ids
                if self.tokenizer.eos_token_id in input_ids[0, input_len:].tolist():
                    break
                if new_token > max_new_tokens:
                    break
                if input_ids.shape[1] > max_length - self.ea_layer.total_tokens - 10:
                    break
        finally:
            self._running = False
            self.closed += 1

    def _said(self) -> Iterator[int]:
        yield from self.text.encode()
        yield self.end
        yield from cycle(BEHIND)

    def _drawn(self) -> Iterator[int]:
        while True:
            yield ord("a") + random.randrange(26)
            yield ord("A") + self.torch.generator.randrange(26)


def engine(ea: EaModel, settings: Settings = TREE) -> Engine:
    """The real engine around a double."""
    return Engine(ea, Tokenizer(), ea.torch, settings)
