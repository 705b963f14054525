"""Which chains and trees of drafts there can be. Pure.

A step below the root has `topk` nodes; each later one gives every one of the last `topk` nodes
`topk` children. So a tree of n steps has at most 1 + topk + (n - 1) * topk^2 tokens, its root
included, and an engine that is to verify more fails while it drafts (SGLang's eagle_utils.py and
EAGLE's cnets.py pick the best by torch.topk).
"""

import msgspec

from .presets import SettingsError
from .settings import LaunchSettings

TREES = ("sglang", "eagle")


def check_chain(s: LaunchSettings, engine: str) -> None:
    """For an engine whose drafts are a chain. SettingsError if a tree is asked for."""
    if s.spec_topk not in (None, 1):
        raise SettingsError(
            f"server {s.name}: {engine} drafts a chain, not a tree: spec_topk must be 1, not"
            f" {s.spec_topk}"
        )
    drafts = None if s.spec_draft_tokens is None else s.spec_draft_tokens - 1
    if drafts is not None and s.spec_steps not in (None, drafts):
        raise SettingsError(
            f"server {s.name}: {engine} drafts a chain: {s.spec_steps} steps verify"
            f" {(s.spec_steps or 0) + 1} tokens, not {s.spec_draft_tokens}: leave out"
            " spec_draft_tokens"
        )


def chain(s: LaunchSettings, *, explicit: bool) -> LaunchSettings:
    """A chain of n steps verifies n + 1 tokens, whatever a lower layer said.

    Raises SettingsError if the command line says otherwise (`explicit`).
    """
    if s.spec_topk != 1 or s.spec_steps is None:
        return s
    tokens = s.spec_steps + 1
    if explicit and s.spec_draft_tokens != tokens:
        raise SettingsError(
            f"server {s.name}: a chain (spec_topk 1) of {s.spec_steps} steps verifies {tokens} "
            f"tokens, not {s.spec_draft_tokens}: leave spec_draft_tokens out, or raise spec_topk"
        )
    return msgspec.structs.replace(s, spec_draft_tokens=tokens)


def check_tree(s: LaunchSettings, *, sized: bool) -> None:
    """SettingsError for a tree that cannot be.

    `sized`: its size was said for this topk, and is not what a chain left over.
    """
    topk = s.spec_topk or 1
    if s.engine not in TREES or topk == 1:
        return
    if not sized or s.spec_draft_tokens is None:
        raise SettingsError(
            f"server {s.name}: a tree (spec_topk {topk}) needs its size: say how many tokens it"
            " verifies by spec_draft_tokens (--spec-draft-tokens) too"
        )
    if s.spec_steps is None:
        return
    most = 1 + topk + (s.spec_steps - 1) * topk**2
    if s.spec_draft_tokens > most:
        raise SettingsError(
            f"server {s.name}: a tree of spec_steps {s.spec_steps} and spec_topk {topk} has at most"
            f" 1 + topk + (steps - 1) * topk^2 = {most} tokens, not {s.spec_draft_tokens}: lower"
            " spec_draft_tokens, or raise spec_steps or spec_topk"
        )


def check_simulated(s: LaunchSettings) -> None:
    """SettingsError for an accept length that the drafting steps cannot give."""
    if s.simulate_accept_length is None:
        return
    longest = float("inf") if s.spec_steps is None else s.spec_steps + 1
    if not 1 <= s.simulate_accept_length <= longest:
        raise SettingsError(
            f"server {s.name}: an accept length of {s.simulate_accept_length:g} cannot come from "
            f"{s.spec_steps} drafting steps: choose 1 to {longest:g}"
        )
