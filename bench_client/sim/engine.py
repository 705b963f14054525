"""The simulated engine: continuous batching and speculation in discrete steps. No clock, no socket.

A driver takes a step with `begin`, lets `Step.duration_ns` pass, and collects its tokens with
`finish`. As in SGLang, prefill goes first and decoding waits for it.
"""

from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from .sequence import EngineSettings, Sequence

PREFILL_BUDGET = 8192  # tokens in one prefill step (SGLang's chunked_prefill_size on such a GPU)
CACHE_BLOCK = 16  # tokens: a prefix is cached in whole blocks


@dataclass(frozen=True, slots=True)
class Step:
    """What the engine computes now, and for how long."""

    kind: Literal["prefill", "decode"]
    duration_ns: int
    sequences: tuple[Sequence, ...]


@dataclass(slots=True)
class Counters:
    """Totals since the start, by step (vLLM's counters) and by finished request (SGLang's)."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    generation_tokens: int = 0
    verify_steps: int = 0
    accepted_per_position: list[int] = field(default_factory=list)
    finished_requests: int = 0
    finished_prompt_tokens: int = 0
    finished_tokens: int = 0
    finished_verify_steps: int = 0

    def leave(self, sequence: Sequence) -> None:
        """Count a request that has ended, in full or cut short."""
        self.finished_requests += 1
        self.finished_prompt_tokens += len(sequence.prompt.tokens)
        self.finished_tokens += sequence.emitted
        self.finished_verify_steps += sequence.verify_steps


class PrefixCache:
    """Blocks of prompt tokens that are still in memory, by the hash of all that leads to them."""

    def __init__(self) -> None:
        self._blocks: set[int] = set()

    def visit(self, tokens: tuple[str, ...]) -> int:
        """How many leading tokens are cached (never all of them); caches the rest."""
        hits, prefix = 0, 0
        for end in range(CACHE_BLOCK, len(tokens) + 1, CACHE_BLOCK):
            prefix = hash((prefix, tokens[end - CACHE_BLOCK : end]))
            if prefix in self._blocks and hits == end - CACHE_BLOCK:
                hits = end
            self._blocks.add(prefix)
        return min(hits, len(tokens) - 1) if hits else 0

    def clear(self) -> None:
        """Forget everything."""
        self._blocks.clear()


class Engine:
    """First come, first served; at most `max_running_requests` sequences decode together."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.counters = Counters(accepted_per_position=[0] * settings.spec_steps)
        self.cache = PrefixCache()
        self._rng = Random(settings.seed)

    def submit(self, sequence: Sequence) -> None:
        """Queue a sequence; it joins the batch at a coming step."""
        self.waiting.append(sequence)

    def abort(self, sequence: Sequence) -> None:
        """Drop a sequence wherever it still is; the step under way yields nothing for it."""
        sequence.dropped = True
        if sequence in self.waiting:
            self.waiting.remove(sequence)
        elif sequence in self.running:
            self.running.remove(sequence)
            self.counters.leave(sequence)

    def begin(self) -> Step | None:
        """Decide the next step; None when there is nothing to do."""
        joining = self._admit()
        if joining:
            computed = sum(len(s.prompt.tokens) - s.cached_tokens for s in joining)
            # A short prefill still reads all the weights, as a decode step does.
            duration = max(self.settings.step_ms, 1000 * computed / self.settings.prefill_tok_s)
            return Step("prefill", self._jittered_ns(duration), tuple(joining))
        if self.running:
            return Step("decode", self._jittered_ns(self._decode_ms()), tuple(self.running))
        return None

    def finish(self, step: Step) -> list[tuple[Sequence, int]]:
        """The step's outcome: new tokens by sequence. Sequences that are done leave the batch."""
        emissions = [(s, self._advance(s, step.kind)) for s in step.sequences if not s.dropped]
        self.running = [sequence for sequence in self.running if not sequence.done]
        return emissions

    def _admit(self) -> list[Sequence]:
        joining: list[Sequence] = []
        budget = PREFILL_BUDGET
        while self.waiting and len(self.running) < self.settings.max_running_requests:
            tokens = self.waiting[0].prompt.tokens
            if joining and len(tokens) > budget:
                break
            sequence = self.waiting.popleft()
            if self.settings.prefix_cache:
                sequence.cached_tokens = self.cache.visit(tokens)
            budget -= len(tokens) - sequence.cached_tokens
            self.counters.prompt_tokens += len(tokens)
            self.counters.cached_tokens += sequence.cached_tokens
            joining.append(sequence)
            self.running.append(sequence)
        return joining

    def _decode_ms(self) -> float:
        s, others = self.settings, len(self.running) - 1
        if s.speculative:
            return s.verify_ms + s.verify_per_sequence_ms * others
        return s.step_ms + s.step_per_sequence_ms * others

    def _jittered_ns(self, ms: float) -> int:
        factor = self._rng.gauss(1.0, self.settings.jitter) if self.settings.jitter else 1.0
        return int(ms * max(factor, 0.1) * 1e6)

    def _advance(self, sequence: Sequence, kind: str) -> int:
        tokens = 1
        if kind == "decode" and self.settings.speculative:
            tokens = sequence.verify(self.settings.spec_steps)
            self.counters.verify_steps += 1
            for position in range(tokens - 1):
                self.counters.accepted_per_position[position] += 1
        tokens = min(tokens, sequence.length - sequence.emitted)
        sequence.emitted += tokens
        self.counters.generation_tokens += tokens
        if sequence.done:
            self.counters.leave(sequence)
        return tokens
