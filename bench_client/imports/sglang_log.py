"""What SGLang logs while it decodes: text in, numbers out.

Lines are found anywhere in a text, several on one line of it too, as notes paste them.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from bench_client.imports.log_fields import Span, fields, whole

# SGLang 0.4.4 to 0.5.23: "Decode batch." or "Decode batch [iteration],"; 0.4.4 has more after it.
_BATCH = re.compile(
    r"Prefill batch|Decode batch((?:(?!Decode batch).){0,900}?"
    r"gen throughput \(token/s\): *\d+(?:\.\d+)?(?:, *[#\w-]+(?: [\w-]+)*: *\d+\b(?!\.\d))*)",
    re.DOTALL,
)
# The end of "[2026-11-30 15:34:13 DP1 TP4 EP0] ".
_RANKS = re.compile(r"((?: [A-Z_]+\d+)+)\]\s*$")


class DecodeLine(Struct, frozen=True, kw_only=True):
    """One SGLang `Decode batch` line: `--decode-log-interval` (40) iterations of the whole batch.

    `gen_tok_per_s` is all tokens since the line before over all time since then. So it is no decode
    speed when a prefill (or an idle time, which ends in a prefill) came between: `after_prefill`.
    `accept_length` counts the bonus token. Each data-parallel rank `dp` has a batch of its own;
    `inner` names the rank within it (`TP4 EP0`).
    """

    span: Span
    dp: int | None = None
    inner: str = ""
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


def _graph(found: dict[str, float]) -> bool | None:
    """The label is `cuda graph`, `cpu graph` or `npu graph`, by device."""
    value = next((value for name, value in found.items() if name.endswith(" graph")), None)
    return None if value is None else bool(value)


def decode_lines(text: str) -> list[DecodeLine]:
    """Every SGLang `Decode batch` line of a text, in order. A prefill is that of its own rank."""
    lines: list[DecodeLine] = []
    prefilled: set[tuple[int | None, str]] = set()
    end = 0
    for match in _BATCH.finditer(text):
        rank = _rank(text, max(match.start() - 60, end), match.start())
        end = match.end()
        if match.group(1) is None:
            prefilled.add(rank)
        elif (line := _decode_line(match, rank, rank in prefilled)) is not None:
            prefilled.discard(rank)
            lines.append(line)
    return lines


def _rank(text: str, start: int, end: int) -> tuple[int | None, str]:
    """(DP rank, the ranks within it) of the line that begins at `end`."""
    match = _RANKS.search(text, start, end)
    names = match.group(1).split() if match else []
    dp = next((int(name[2:]) for name in names if name.startswith("DP")), None)
    return dp, " ".join(name for name in names if not name.startswith("DP"))


def _decode_line(
    match: re.Match[str], rank: tuple[int | None, str], after_prefill: bool
) -> DecodeLine | None:
    found = fields(match.group(1))
    throughput = found.get("gen throughput (token/s)")
    if throughput is None:
        return None
    return DecodeLine(
        span=match.span(),
        dp=rank[0],
        inner=rank[1],
        running=int(found.get("#running-req", 1)),
        gen_tok_per_s=throughput,
        tokens=whole(found.get("#token", found.get("#full token"))),
        accept_length=found.get("accept len"),
        accept_rate=found.get("accept rate"),
        graph=_graph(found),
        queued=whole(found.get("#queue-req")),
        after_prefill=after_prefill,
    )


def one_rank_each(lines: Sequence[DecodeLine]) -> list[DecodeLine]:
    """One log a DP rank: where its TP or PP ranks log too, they log the same batch again."""
    first: dict[int | None, str] = {}
    return [
        line
        for line in lines
        if not line.inner or line.inner == first.setdefault(line.dp, line.inner)
    ]


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
