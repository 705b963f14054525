"""Without a server: the line that scripts around EAGLE's `eagenerate` print for each prompt."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from .asks import Ask, BadRequestError, Sampling, parse
from .model import Engine
from .stepping import answer_steps


class PromptsError(ValueError):
    """The prompts cannot be read; one line that says where."""


@dataclass(frozen=True)
class Options:
    """How to answer every prompt."""

    max_tokens: int
    sampling: Sampling
    ignore_eos: bool = False


def read_prompts(path: Path) -> list[Ask]:
    """The lines of a .jsonl of {"prompt": ...} or {"messages": ...}. Raises PromptsError."""
    asks = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            asks.append(_ask(line))
        except BadRequestError as error:
            raise PromptsError(f"{path}, line {number}: {error}") from None
    if not asks:
        raise PromptsError(f"{path} holds no prompt")
    return asks


def _ask(line: str) -> Ask:
    try:
        said = json.loads(line)
    except ValueError as error:
        raise BadRequestError(f"not JSON: {error}") from None
    if isinstance(said, dict) and isinstance(said.get("prompt"), str):
        said = {**said, "messages": [{"role": "user", "content": said["prompt"]}]}
    return parse(json.dumps(said).encode(), chat=True, defaults=Sampling())


def run(engine: Engine, asks: list[Ask], options: Options, out: TextIO) -> None:
    """Answer each prompt and print its line.

    As `eagenerate` counts: tokens behind the end token in the last block are in.
    """
    for ask in asks:
        prompt = engine.prompt_ids(ask)
        begun = time.perf_counter()
        tokens = sum(_counts(engine, prompt, options))
        seconds = time.perf_counter() - begun
        out.write(
            f"Generation time: {seconds:.6f}s for {tokens} tokens,"
            f" speed: {tokens / seconds:.6f} tokens/s\n"
        )
        out.flush()


def _counts(engine: Engine, prompt: list[int], options: Options) -> Iterator[int]:
    stop = frozenset[int]() if options.ignore_eos else engine.stop
    blocks = engine.blocks(prompt, options.sampling, options.max_tokens)
    for step in answer_steps(blocks, options.max_tokens, stop):
        yield step.accepted + 1
