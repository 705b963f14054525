"""What SGLang and vLLM log while they decode: text in, numbers out.

Lines are found anywhere in a text, several on one line of it too, as notes paste them.
"""

import re
from collections.abc import Sequence
from itertools import takewhile
from math import isfinite

from msgspec import Struct

Span = tuple[int, int]

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?|True|False")
# SGLang 0.4.4 to 0.5.23: "Decode batch." or "Decode batch [iteration],"; 0.4.4 has more after it.
_DECODE = re.compile(
    r"Decode batch((?:(?!Decode batch).){0,900}?"
    r"gen throughput \(token/s\): *\d+(?:\.\d+)?(?:, *[#\w-]+(?: [\w-]+)*: *\d+\b(?!\.\d))*)",
    re.DOTALL,
)
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


class DecodeLine(Struct, frozen=True, kw_only=True):
    """One SGLang `Decode batch` line: `--decode-log-interval` (40) iterations of the whole batch.

    `gen_tok_per_s` is all tokens since the line before over all time since then. So it is no decode
    speed when a prefill (or an idle time, which ends in a prefill) came between: `after_prefill`.
    `accept_length` counts the bonus token.
    """

    span: Span
    running: int
    gen_tok_per_s: float
    tokens: int | None = None
    accept_length: float | None = None
    accept_rate: float | None = None
    graph: bool | None = None
    queued: int | None = None
    after_prefill: bool = False

    @property
    def tps_decode(self) -> float:
        """Tokens per second of one request."""
        return self.gen_tok_per_s / max(self.running, 1)

    @property
    def step_ms(self) -> float | None:
        """Time of one decode iteration: accept length / tps_decode (1 / tps_decode when plain)."""
        if self.gen_tok_per_s <= 0:
            return None
        accept_length = 1.0 if self.accept_length is None else self.accept_length
        return 1000 * accept_length / self.tps_decode


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


def _fields(body: str) -> dict[str, float]:
    """The `name: number` parts of a comma-separated line; the first of a name wins."""
    found: dict[str, float] = {}
    for part in re.split(r"[,，]", " ".join(body.split())):
        name, colon, value = part.partition(":")
        number = _NUMBER.match(value.strip())
        if colon and number:
            text = number.group()
            read = float(text == "True") if text[0] in "TF" else float(text)
            if isfinite(read):  # hundreds of digits are not
                found.setdefault(name.strip(" ."), read)
    return found


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _graph(fields: dict[str, float]) -> bool | None:
    """The label is `cuda graph`, `cpu graph` or `npu graph`, by device."""
    value = next((value for name, value in fields.items() if name.endswith(" graph")), None)
    return None if value is None else bool(value)


def decode_lines(text: str) -> list[DecodeLine]:
    """Every SGLang `Decode batch` line of a text, in order."""
    lines: list[DecodeLine] = []
    last_end = 0
    for match in _DECODE.finditer(text):
        fields = _fields(match.group(1))
        throughput = fields.get("gen throughput (token/s)")
        if throughput is None:
            continue
        lines.append(
            DecodeLine(
                span=match.span(),
                running=int(fields.get("#running-req", 1)),
                gen_tok_per_s=throughput,
                tokens=_whole(fields.get("#token", fields.get("#full token"))),
                accept_length=fields.get("accept len"),
                accept_rate=fields.get("accept rate"),
                graph=_graph(fields),
                queued=_whole(fields.get("#queue-req")),
                after_prefill=text.find("Prefill batch", last_end, match.start()) >= 0,
            )
        )
        last_end = match.end()
    return lines


def engine_lines(text: str) -> list[EngineLine]:
    """Every vLLM throughput line of a text (V0 and V1), in order."""
    lines: list[EngineLine] = []
    for match in _ENGINE.finditer(text):
        fields = _fields(match.group())
        prompt, generation = (
            fields.get(f"Avg {what} throughput") for what in ("prompt", "generation")
        )
        if prompt is None or generation is None:
            continue
        number = _ENGINE_NUMBER.search(text, max(match.start() - 20, 0), match.start())
        cache = next((v for name, v in fields.items() if name.endswith("KV cache usage")), None)
        lines.append(
            EngineLine(
                span=match.span(),
                engine=int(number.group(1)) if number else None,
                prompt_tok_per_s=prompt,
                generation_tok_per_s=generation,
                running=_whole(fields.get("Running")),
                waiting=_whole(fields.get("Waiting", fields.get("Pending"))),
                kv_cache_pct=cache,
            )
        )
    return lines


def spec_lines(text: str) -> list[SpecLine]:
    """Every vLLM speculation line of a text (V0, old V1 and new V1), in order."""
    lines: list[SpecLine] = []
    for match in _SPEC.finditer(text):
        fields = _fields(match.group(2))
        drafted = fields.get("Drafted", fields.get("Number of draft tokens"))
        if drafted is None:
            continue
        positions = _POSITIONS.search(match.group(2))
        lines.append(
            SpecLine(
                span=match.span(),
                accepted=int(fields.get("Accepted", fields.get("Number of accepted tokens", 0))),
                drafted=int(drafted),
                mean_accept_length=fields.get("Mean acceptance length"),
                per_position=_rates(positions.group(1)) if positions else (),
                draft_length=_whole(fields.get("Number of speculative tokens")),
                emitted=_whole(fields.get("Number of emitted tokens")),
            )
        )
    return lines


def _rates(text: str) -> tuple[float, ...]:
    """Rates with commas between; nan, printed where nothing was drafted, ends them."""
    rates = [float(rate) for rate in text.split(",")]
    return tuple(takewhile(isfinite, rates))


def sglang_accept_length(lines: Sequence[DecodeLine]) -> float | None:
    """Mean accept length over SGLang's lines, each weighted by its running requests.

    A line's value is accepted tokens / verify steps over 40 iterations, and an iteration is one
    verify step of every running request; so lines carry 40 x #running-req steps. (#running-req is
    that of the line's last iteration: exact while the batch does not change.) The first line after
    a prefill counts like any other: its iterations are whole, only its throughput is not. Up to 39
    iterations before the first line may belong to earlier requests, as many at the end are missing.
    """
    known = [(max(line.running, 1), line.accept_length) for line in lines if line.accept_length]
    if not known:
        return None
    return sum(weight * value for weight, value in known) / sum(weight for weight, _ in known)


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


def log_accept_length(text: str) -> float | None:
    """Accept length that the engine's own log gives for a window of it; None without such lines."""
    value = sglang_accept_length(decode_lines(text))
    return vllm_accept_length(spec_lines(text)) if value is None else value
