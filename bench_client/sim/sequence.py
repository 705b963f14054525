"""One request inside the engine: what it will answer and how its drafts fare. Pure."""

from dataclasses import dataclass
from hashlib import sha256
from math import log
from random import Random
from typing import Literal

from .vocabulary import TAPE_LENGTH, Language, tape

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True)
class EngineSettings:
    """The hardware and the pair of models; the defaults are an L40 with Qwen3-8B.

    Times are ms of a step with one sequence and what each further sequence adds. Verifying grows
    faster, as it computes `spec_steps` + 1 tokens a sequence, so that with the defaults English
    text stops gaining at about 12 sequences. `accept_*` is the probability that a draft token is
    accepted, `jitter` the standard deviation of a step's relative duration.
    """

    step_ms: float = 22.7
    step_per_sequence_ms: float = 0.35
    verify_ms: float = 43.2
    verify_per_sequence_ms: float = 6.0
    prefill_tok_s: float = 6000.0
    speculative: bool = False
    spec_steps: int = 5
    accept_en: float = 0.855
    accept_zh: float = 0.335
    jitter: float = 0.01
    seed: int = 0
    max_running_requests: int = 48
    answer_tokens: tuple[int, int] = (400, 2000)
    prefix_cache: bool = False


@dataclass(frozen=True)
class Prompt:
    """A prompt as the engine sees it; `language` is that of the last user message."""

    text: str
    tokens: tuple[str, ...]
    language: Language


@dataclass(frozen=True)
class Sampling:
    """How to answer. At temperature 0 the seed has no effect."""

    max_tokens: int
    temperature: float = 0.0
    seed: int | None = None
    ignore_eos: bool = False


_UNUSED = Random(0)  # seeding costs as much as all else that a new sequence needs


class Sequence:
    """One request in the engine. Token i of its answer stands at `start` + i on its `tape`.

    The answer and its length depend on the prompt and, above temperature 0, on the seed alone:
    speculation and batching change when tokens come, never which.
    """

    __slots__ = (
        "cached_tokens",
        "dropped",
        "emitted",
        "finish_reason",
        "histogram",
        "length",
        "log_accept",
        "prompt",
        "rng",
        "start",
        "tape",
    )

    def __init__(self, prompt: Prompt, sampling: Sampling, settings: EngineSettings) -> None:
        seed = sampling.seed if sampling.temperature > 0 else None
        digest = sha256(f"{seed}\0{prompt.text}".encode()).digest()
        self.prompt = prompt
        self.tape = tape(prompt.language)
        self.start = int.from_bytes(digest[:8]) % TAPE_LENGTH
        shortest, longest = settings.answer_tokens
        natural = shortest + int.from_bytes(digest[8:16]) % (longest - shortest + 1)
        stops = natural <= sampling.max_tokens and not sampling.ignore_eos
        self.length = natural if stops else sampling.max_tokens
        self.finish_reason: FinishReason = "stop" if stops else "length"
        self.emitted = 0
        self.cached_tokens = 0
        self.dropped = False
        self.histogram = [0] * (settings.spec_steps + 1) if settings.speculative else []
        accept = settings.accept_zh if prompt.language == "zh" else settings.accept_en
        self.log_accept = log(accept) if accept > 0 else float("-inf")
        self.rng = _UNUSED
        if settings.speculative:
            self.rng = Random(digest + str(settings.seed).encode())

    @property
    def done(self) -> bool:
        """Whether the whole answer is out."""
        return self.emitted >= self.length

    @property
    def verify_steps(self) -> int:
        """Verify steps so far."""
        return sum(self.histogram)

    @property
    def accepted(self) -> int:
        """Draft tokens accepted so far. The last step counts whole, though its end may be cut."""
        return sum(drafts * steps for drafts, steps in enumerate(self.histogram))

    def verify(self, chain: int) -> int:
        """Verify a chain of drafts up to the first miss; the tokens that come out of it."""
        # P(at least j accepted) = p^j: the inverse of the geometric distribution, cut at the chain.
        accepted = chain
        if self.log_accept < 0:
            accepted = min(chain, int(log(1.0 - self.rng.random()) / self.log_accept))
        self.histogram[accepted] += 1
        return accepted + 1
