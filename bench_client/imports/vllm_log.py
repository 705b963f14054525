"""What vLLM logs while it decodes: text in, numbers out.

Lines are found anywhere in a text, several on one line of it too, as notes paste them.
"""

import re
from collections.abc import Sequence
from itertools import takewhile
from math import isfinite

from msgspec import Struct

from bench_client.imports.log_fields import Span, fields, whole

# vLLM V1 "Engine 000: Avg prompt ..."; the V0 engine starts at "Avg" and says "Pending".
_ENGINE = re.compile(
    r"Avg prompt throughput: (?:(?!Avg prompt throughput|metrics: |Engine \d)[^\n])*"
)
_ENGINE_NUMBER = re.compile(r"Engine (\d+): $")
_SPEC = re.compile(
    r"(SpecDecoding|Speculative) metrics: ((?:(?!(?:SpecDecoding|Speculative) metrics: )[^\n])*)"
)
_POSITIONS = re.compile(
    r"Per-position acceptance rate: *((?:\d+(?:\.\d+)?|nan)(?:, *(?:\d+(?:\.\d+)?|nan))*)"
)


class EngineLine(Struct, frozen=True, kw_only=True):
    """One vLLM throughput line: averages over the log interval (10 s), idle time included."""

    span: Span
    engine: int | None
    prompt_tok_per_s: float
    generation_tok_per_s: float
    running: int | None = None
    waiting: int | None = None
    kv_cache_pct: float | None = None


class SpecLine(Struct, frozen=True, kw_only=True):
    """One vLLM speculation line: counts of the log interval (V0: since the server started).

    `accepted` leaves the bonus token out; V0's `emitted` has it in. The oldest V1 lines give no
    mean acceptance length.
    """

    span: Span
    accepted: int
    drafted: int
    mean_accept_length: float | None = None
    per_position: tuple[float, ...] = ()
    draft_length: int | None = None
    emitted: int | None = None

    @property
    def cumulative(self) -> bool:
        """Whether the counts run since the server started (V0)."""
        return self.emitted is not None

    @property
    def verify_steps(self) -> float | None:
        """Drafted / draft length, if the printed mean agrees; else accepted / (mean - 1)."""
        length = self.draft_length or len(self.per_position)
        if length and self.drafted:
            steps = self.drafted / length
            mean = self.mean_accept_length
            if mean is None or abs(1 + self.accepted / steps - mean) < 0.0051:
                return steps
        if self.mean_accept_length and self.mean_accept_length > 1:
            return self.accepted / (self.mean_accept_length - 1)
        return None


def engine_lines(text: str) -> list[EngineLine]:
    """Every vLLM throughput line of a text (V0 and V1), in order."""
    lines: list[EngineLine] = []
    for match in _ENGINE.finditer(text):
        found = fields(match.group())
        prompt, generation = (
            found.get(f"Avg {what} throughput") for what in ("prompt", "generation")
        )
        if prompt is None or generation is None:
            continue
        number = _ENGINE_NUMBER.search(text, max(match.start() - 20, 0), match.start())
        cache = next((v for name, v in found.items() if name.endswith("KV cache usage")), None)
        lines.append(
            EngineLine(
                span=match.span(),
                engine=int(number.group(1)) if number else None,
                prompt_tok_per_s=prompt,
                generation_tok_per_s=generation,
                running=whole(found.get("Running")),
                waiting=whole(found.get("Waiting", found.get("Pending"))),
                kv_cache_pct=cache,
            )
        )
    return lines


def spec_lines(text: str) -> list[SpecLine]:
    """Every vLLM speculation line of a text (V0, old V1 and new V1), in order."""
    lines: list[SpecLine] = []
    for match in _SPEC.finditer(text):
        found = fields(match.group(2))
        drafted = found.get("Drafted", found.get("Number of draft tokens"))
        if drafted is None:
            continue
        positions = _POSITIONS.search(match.group(2))
        lines.append(
            SpecLine(
                span=match.span(),
                accepted=int(found.get("Accepted", found.get("Number of accepted tokens", 0))),
                drafted=int(drafted),
                mean_accept_length=found.get("Mean acceptance length"),
                per_position=_rates(positions.group(1)) if positions else (),
                draft_length=whole(found.get("Number of speculative tokens")),
                emitted=whole(found.get("Number of emitted tokens")),
            )
        )
    return lines


def _rates(text: str) -> tuple[float, ...]:
    """Rates with commas between; nan, printed where nothing was drafted, ends them."""
    rates = [float(rate) for rate in text.split(",")]
    return tuple(takewhile(isfinite, rates))


def _cumulative_accept_length(lines: Sequence[SpecLine]) -> float | None:
    """V0 counts since the start: the last line less the first, or the only line as it is."""
    emitted = lines[-1].emitted or 0
    steps = lines[-1].verify_steps or 0.0
    if len(lines) > 1 and emitted > (lines[0].emitted or 0):
        emitted -= lines[0].emitted or 0
        steps -= lines[0].verify_steps or 0.0
    return emitted / steps if steps > 0 else None


def vllm_accept_length(lines: Sequence[SpecLine]) -> float | None:
    """Accept length over vLLM's lines: 1 + accepted / verify steps, steps = drafted / draft length.

    Where a line lets no draft length be told, means weighted by drafted tokens, which is the same
    while the draft length is constant.
    """
    if lines and lines[-1].cumulative:
        return _cumulative_accept_length(lines)
    steps = [line.verify_steps for line in lines]
    known = [value for value in steps if value is not None]
    if len(known) == len(steps) and sum(known) > 0:
        return 1 + sum(line.accepted for line in lines) / sum(known)
    means = [(line.drafted, line.mean_accept_length) for line in lines if line.mean_accept_length]
    drafted = sum(weight for weight, _ in means)
    return sum(weight * mean for weight, mean in means) / drafted if drafted else None
