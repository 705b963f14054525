"""What a server of the rigged pair must answer: its tokens and its verify steps. Pure Python.

Every token id belongs to one language's range. The first `cycle` ids of a range follow one another
round and round; each further id of the range enters that cycle at its own place. So the last token
of a prompt alone decides the whole greedy output. The head drafts every token right but the `bad`.
"""

import json
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Language:
    """Token ids first <= id < stop; those below first + cycle are the ones ever generated."""

    name: str
    first: int
    stop: int
    cycle: int
    miss: float  # share of the cycle that the head cannot draft
    bad: frozenset[int]  # the ids that it cannot draft

    def place(self, token: int) -> int:
        """Where on the cycle `token` stands or enters, 0 <= place < cycle."""
        return (token - self.first) % self.cycle

    def successor(self, token: int) -> int:
        """The token that greedy decoding emits after `token`."""
        return self.first + (self.place(token) + 1) % self.cycle


Rig = tuple[Language, ...]


def load(path: Path) -> Rig:
    """Read a rig.json."""
    noted = json.loads(path.read_text(encoding="utf-8"))["languages"]
    return tuple(Language(**entry | {"bad": frozenset(entry["bad"])}) for entry in noted)


def language_of(rig: Rig, token: int) -> Language:
    """The language whose range holds `token`; ValueError for an id outside the vocabulary."""
    for language in rig:
        if language.first <= token < language.stop:
            return language
    raise ValueError(f"token {token} is not in the rig's vocabulary")


def _tokens(rig: Rig, last_prompt_token: int) -> "Iterator[int]":
    language, token = language_of(rig, last_prompt_token), last_prompt_token
    while True:
        token = language.successor(token)
        yield token


def walk(rig: Rig, last_prompt_token: int, n: int) -> list[int]:
    """The n tokens generated after a prompt that ends in `last_prompt_token`."""
    return list(islice(_tokens(rig, last_prompt_token), n))


def verify_blocks(rig: Rig, last_prompt_token: int, n_output: int, drafts: int) -> list[int]:
    """Tokens that each verify step yields (accepted drafts + 1) in a request of n_output tokens.

    The first token comes from the prefill and is in no block. The last block counts whole, as the
    engines count it, although max_tokens may cut what is sent: sum(blocks) >= n_output - 1.
    """
    bad = language_of(rig, last_prompt_token).bad
    stream = _tokens(rig, last_prompt_token)
    blocks: list[int] = []
    if n_output > 0:
        next(stream)
    emitted = 1
    while emitted < n_output:
        accepted = 0
        # The step's last token is the target's own: the miss, or the bonus after a full chain.
        while next(stream) not in bad and accepted < drafts:
            accepted += 1
        blocks.append(accepted + 1)
        emitted += accepted + 1
    return blocks


def expected_steps(rig: Rig, last_prompt_token: int, n_output: int, drafts: int) -> int:
    """Verify steps of a request of n_output tokens with a chain of `drafts` draft tokens."""
    return len(verify_blocks(rig, last_prompt_token, n_output, drafts))


def expected_accept_length(rig: Rig, last_prompt_token: int, n_output: int, drafts: int) -> float:
    """Accept length as the project defines it: output tokens / verify steps (n_output >= 2)."""
    return n_output / expected_steps(rig, last_prompt_token, n_output, drafts)
