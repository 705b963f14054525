"""Lines that offline scripts print, one request each: vLLM's progress bar and EAGLE's timing.

vLLM's bar (`LLM.generate`, one prompt) rounds: seconds an iteration, input and output tokens per
second. The token counts are the integers that all three numbers allow; null where several do.
"""

import re
from collections.abc import Iterator, Sequence
from math import ceil, floor

from msgspec import Struct

from bench_client.imports.as_run import Request, Source, Told, run_of
from bench_client.imports.plain_text import line_of
from bench_client.records import Load, Run

VLLM_TOOL = "vLLM offline progress bar"
EAGLE_TOOL = "EAGLE generation time lines"

_BAR = re.compile(
    r"(?:(?P<done>\d+)/(?P<total>\d+) *)?\[[\d:]+<[\d:?]*,"
    r" *(?P<pace>\d+\.\d+) ?(?P<unit>s/it|it/s),"
    r" est\. speed input: (?P<input>\d+\.\d+) toks/s, output: (?P<output>\d+\.\d+) toks/s\]"
)
_EAGLE = re.compile(
    r"Generation time: *(?P<seconds>[\d.][\w.+-]*?) ?s for (?P<tokens>\d+) tokens,"
    r" speed: *(?P<speed>\S+) tokens/s"
)
_HALF = 0.005 + 1e-9  # a number printed with two decimals is at most this far off

ONE_AT_A_TIME = Load(kind="closed", concurrency=1)
END_TO_END = {"tps_e2e": "output tokens / wall time of the request, prefill included"}
EAGLE_DEFINITIONS = END_TO_END | {
    "output_tokens": "tokens after the end token in the last accepted block are counted too"
}
IN_A_ROW = "The lines tell no start: each request is taken to follow the one before at once."


class Interval(Struct, frozen=True):
    """lo <= x <= hi."""

    lo: float
    hi: float

    def meet(self, other: "Interval") -> "Interval":
        """What lies in both; empty when lo > hi."""
        return Interval(max(self.lo, other.lo), min(self.hi, other.hi))


class Bar(Struct, frozen=True, kw_only=True):
    """One finished line of vLLM's bar: elapsed seconds as an interval, rates as printed.

    `elapsed` is that of one prompt; of a bar over several, nothing exact.
    """

    span: tuple[int, int]
    prompts: int
    elapsed: Interval
    input_rate: float
    output_rate: float


class Timing(Struct, frozen=True, kw_only=True):
    """One line of EAGLE's timing."""

    span: tuple[int, int]
    seconds: float
    tokens: int


def bars(text: str) -> list[Bar]:
    """Every finished bar of a text, in order; its earlier states are left out."""
    found: list[Bar] = []
    for match in _BAR.finditer(text):
        if match["done"] != match["total"]:
            continue
        pace = float(match["pace"])
        elapsed = Interval(pace - _HALF, pace + _HALF)
        if match["unit"] == "it/s":
            elapsed = Interval(1 / (pace + _HALF), 1 / max(pace - _HALF, _HALF))
        found.append(
            Bar(
                span=match.span(),
                prompts=int(match["total"] or 1),
                elapsed=elapsed,
                input_rate=float(match["input"]),
                output_rate=float(match["output"]),
            )
        )
    return found


def timings(text: str) -> list[Timing]:
    """Every EAGLE timing line of a text. ValueError, with the line, where a time is no number."""
    return [
        Timing(span=match.span(), seconds=_seconds(match), tokens=int(match["tokens"]))
        for match in _EAGLE.finditer(text)
    ]


def _seconds(match: re.Match[str]) -> float:
    try:
        return float(match["seconds"])
    except ValueError:
        line = line_of(match.string, match.start())
        raise ValueError(f"line {line}: {match['seconds']!r} s is no time") from None


def _counts(elapsed: Interval, rate: float) -> Iterator[tuple[int, Interval]]:
    """Integers that round to `rate` at some elapsed time, each with the times that allow it."""
    low = max(ceil(elapsed.lo * (rate - _HALF)), 1)
    for count in range(low, floor(elapsed.hi * (rate + _HALF)) + 1):
        times = elapsed.meet(Interval(count / (rate + _HALF), count / max(rate - _HALF, 1e-9)))
        if times.lo <= times.hi:
            yield count, times


def token_counts(bar: Bar) -> tuple[int | None, int | None, float]:
    """(input tokens, output tokens, elapsed s): a count is null unless it alone is possible."""
    pairs = [
        (inputs, outputs, both)
        for inputs, times in _counts(bar.elapsed, bar.input_rate)
        for outputs, both in _counts(times, bar.output_rate)
    ]
    span = Interval(
        min((both.lo for *_, both in pairs), default=bar.elapsed.lo),
        max((both.hi for *_, both in pairs), default=bar.elapsed.hi),
    )
    inputs = {pair[0] for pair in pairs}
    outputs = {pair[1] for pair in pairs}
    return (
        inputs.pop() if len(inputs) == 1 else None,
        outputs.pop() if len(outputs) == 1 else None,
        (span.lo + span.hi) / 2,
    )


def _in_a_row(rows: Sequence[tuple[int | None, int | None, float]]) -> list[Request]:
    requests: list[Request] = []
    start = 0.0
    for inputs, outputs, seconds in rows:
        requests.append(
            Request(
                start=start,
                end=start + seconds,
                input_tokens=inputs,
                output_tokens=outputs,
                count_source=None if outputs is None else "native",
            )
        )
        start += seconds
    return requests


def bars_run(found: Sequence[Bar], source: Source) -> Run:
    """Bars of single prompts of one system as a run, one request each."""
    rows = [token_counts(bar) for bar in found]
    told = Told(
        tool=VLLM_TOOL,
        engine="vllm",
        load=ONE_AT_A_TIME,
        definitions=END_TO_END,
        samples={"tps_e2e": tuple(bar.output_rate for bar in found)},
    )
    sure = sum(None not in (inputs, outputs) for inputs, outputs, _ in rows)
    recovered = (
        f"Token counts and times follow from the three rounded numbers of a line: in {sure} of "
        f"{len(rows)} lines one pair of integers alone fits."
    )
    return run_of(told, source, {}, _in_a_row(rows), findings=(recovered, IN_A_ROW))


def batch_run(bar: Bar, source: Source) -> Run:
    """One bar over several prompts at a time as a run: rates alone, no requests."""
    figures = {
        "requests.ok": float(bar.prompts),
        "throughput.input_tok_per_s": bar.input_rate,
        "throughput.output_tok_per_s": bar.output_rate,
    }
    return run_of(Told(tool=VLLM_TOOL, engine="vllm"), source, figures)


def timings_run(found: Sequence[Timing], source: Source) -> Run:
    """EAGLE's timing lines of one system as a run, one request each."""
    rates = tuple(line.tokens / line.seconds for line in found if line.seconds > 0)
    told = Told(
        tool=EAGLE_TOOL,
        engine="transformers",
        load=ONE_AT_A_TIME,
        definitions=EAGLE_DEFINITIONS,
        samples={"tps_e2e": rates} if rates else {},
    )
    requests = _in_a_row([(None, line.tokens, line.seconds) for line in found])
    none = len(found) - len(rates)
    timeless = (
        f"{none} of {len(found)} lines took 0 s, which gives no speed: they are left out of it."
    )
    findings = (IN_A_ROW, timeless) if none else (IN_A_ROW,)
    return run_of(told, source, {}, requests, findings=findings)
