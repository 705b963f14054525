"""A run as sglang.bench_serving prints it, in any version from 0.4.4 to 0.5.23.

The block is the same byte for byte, trailing spaces included. Our own lines follow it unless it is
asked for strictly.
"""

import math
import re

from bench_client.measure.figures import Summary
from bench_client.records import Run
from bench_client.report.bench_figures import ACCEPT_LENGTH, Figures, backend, bench_figures

# The releases from which something is printed, counted or (0.5.5) written otherwise.
FORMS = (
    *("0.4.4", "0.4.6.post4", "0.5.3.post1", "0.5.4.post1", "0.5.5"),
    *("0.5.5.post2", "0.5.6", "0.5.8", "0.5.14"),
)
# From here on gaps are spread over the tokens of their text. (Through 0.5.5.post1 a chat with an
# accept length crashed there.)
DIVIDES = "0.5.4.post1"
LATEST = "0.5.23"

# A release with what packages and tags add: v0.5.8, 0.5.6.post2, 0.5.9rc1, 0.5.9.dev3+g1a2b3c.
_VERSION = re.compile(
    r"v?(\d{1,4}(?:\.\d{1,4})*)(?:[.-]?(?:a|b|rc|alpha|beta)\.?\d*)?"
    r"(?:[.-]?post\.?(\d{0,4}))?(?:[.-]?dev\.?\d*)?(?:\+[\w.]+)?",
    re.ASCII | re.IGNORECASE,
)

# (label, figure, first form that prints it, first form that no longer does); a section has no
# figure. 0.4.4 misspells.
_ROWS: tuple[tuple[str, str, str, str], ...] = (
    ("Backend:", "backend", "0.4.4", ""),
    ("Traffic request rate:", "request_rate", "0.4.4", ""),
    ("Max reqeuest concurrency:", "max_concurrency", "0.4.4", "0.4.6.post4"),
    ("Max request concurrency:", "max_concurrency", "0.4.6.post4", ""),
    ("Successful requests:", "requests.ok", "0.4.4", ""),
    ("Benchmark duration (s):", "duration_s", "0.4.4", ""),
    ("Total input tokens:", "input_tokens", "0.4.4", ""),
    ("Total input text tokens:", "input_text_tokens", "0.5.3.post1", ""),
    ("Total input vision tokens:", "input_vision_tokens", "0.5.3.post1", "0.5.8"),
    ("Total generated tokens:", "output_tokens", "0.4.4", ""),
    ("Total generated tokens (retokenized):", "output_tokens_retokenized", "0.4.4", ""),
    ("Request throughput (req/s):", "throughput.request_per_s", "0.4.4", ""),
    ("Input token throughput (tok/s):", "throughput.input_tok_per_s", "0.4.4", ""),
    ("Output token throughput (tok/s):", "throughput.output_tok_per_s", "0.4.4", ""),
    ("Peak output token throughput (tok/s):", "peak_output_events_per_s", "0.5.6", ""),
    ("Peak concurrent requests:", "peak_requests_in_one_second", "0.5.6", ""),
    ("Total token throughput (tok/s):", "throughput.total_tok_per_s", "0.4.4", ""),
    ("Concurrency:", "concurrency.mean", "0.4.4", ""),
    ("Accept length:", ACCEPT_LENGTH, "0.4.4", ""),
    ("End-to-End Latency", "", "0.4.4", ""),
    ("Mean E2E Latency (ms):", "e2e_ms.mean", "0.4.4", ""),
    ("Median E2E Latency (ms):", "e2e_ms.p50", "0.4.4", ""),
    ("P90 E2E Latency (ms):", "e2e_ms.p90", "0.5.8", ""),
    ("P95 E2E Latency (ms):", "e2e_ms.p95", "0.5.14", ""),
    ("P99 E2E Latency (ms):", "e2e_ms.p99", "0.5.8", ""),
    ("Time to First Token", "", "0.4.4", ""),
    ("Mean TTFT (ms):", "ttft_ms.mean", "0.4.4", ""),
    ("Median TTFT (ms):", "ttft_ms.p50", "0.4.4", ""),
    ("P90 TTFT (ms):", "ttft_ms.p90", "0.5.14", ""),
    ("P95 TTFT (ms):", "ttft_ms.p95", "0.5.14", ""),
    ("P99 TTFT (ms):", "ttft_ms.p99", "0.4.4", ""),
    ("Time per Output Token (excl. 1st token)", "", "0.5.5.post2", ""),
    ("Mean TPOT (ms):", "tpot_ms.mean", "0.5.5.post2", ""),
    ("Median TPOT (ms):", "tpot_ms.p50", "0.5.5.post2", ""),
    ("P90 TPOT (ms):", "tpot_ms.p90", "0.5.14", ""),
    ("P95 TPOT (ms):", "tpot_ms.p95", "0.5.14", ""),
    ("P99 TPOT (ms):", "tpot_ms.p99", "0.5.5.post2", ""),
    ("Inter-Token Latency", "", "0.4.4", ""),
    ("Mean ITL (ms):", "itl_ms.mean", "0.4.4", ""),
    ("Median ITL (ms):", "itl_ms.p50", "0.4.4", ""),
    ("P90 ITL (ms):", "itl_ms.p90", "0.5.14", ""),
    ("P95 ITL (ms):", "itl_ms.p95", "0.4.4", ""),
    ("P99 ITL (ms):", "itl_ms.p99", "0.4.4", ""),
    ("Max ITL (ms):", "itl_ms.max", "0.4.4", ""),
)
WHOLE = {
    "requests.ok",
    "input_tokens",
    "input_text_tokens",
    "input_vision_tokens",
    "output_tokens",
    "output_tokens_retokenized",
    "peak_requests_in_one_second",
}


def form_of(version: str) -> int:
    """The index in FORMS of how `version` prints, such as 0.5.8, v0.5.8 or 0.5.6.post2.

    ValueError for what is no version, and for one older than the oldest.
    """
    release = _release(version.strip())
    index = sum(_release(form) <= release for form in FORMS) - 1
    if index < 0:
        raise ValueError(f"sglang {version} is older than {FORMS[0]}, the oldest form known here")
    return index


def _release(version: str) -> tuple[tuple[int, ...], int]:
    """0.5.6.post2 -> ((0, 5, 6), 2)."""
    match = _VERSION.fullmatch(version)
    if match is None:
        raise ValueError(f"{version} is no sglang version; write it like {LATEST}")
    return tuple(map(int, match.group(1).split("."))), int(match.group(2) or 0)


def request_rate(run: Run) -> float:
    """Requests per second; infinite where all are due at once."""
    return run.header.plan.load.request_rate or math.inf


def max_concurrency(run: Run) -> int | None:
    """Most requests in flight; null where nothing bounds them."""
    load = run.header.plan.load
    return load.concurrency if load.kind == "closed" else load.max_concurrency


def figure_of(figures: Figures, name: str) -> float | None:
    """An imported ITL that was one value an event is kept under its own name."""
    value = figures.get(name)
    return figures.get(name.replace("itl_ms.", "chunk_gap_ms.")) if value is None else value


def _line(label: str, value: str) -> str:
    return f"{label:<40} {value:<10}"


def _number(name: str, value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:.0f}" if name in WHOLE else f"{value:.2f}"


def sglang_block(run: Run, summary: Summary, version: str = LATEST, *, strict: bool = False) -> str:
    """The printed result block of that version of sglang.bench_serving, and our own lines.

    A version between two known forms prints like the older. An unknown figure reads "unknown".
    """
    form = form_of(version)
    divides = form >= FORMS.index(DIVIDES)
    figures = bench_figures(run, summary, "sglang", divides=divides)
    settings = {
        "backend": backend(run),
        "request_rate": str(request_rate(run)),
        "max_concurrency": str(max_concurrency(run) or "not set"),
    }
    lines = ["", f"{' Serving Benchmark Result ':=^50}"]
    for label, name, since, until in _ROWS:
        value = settings.get(name) or _number(name, figure_of(figures, name))
        absent = name == ACCEPT_LENGTH and name not in figures
        if absent or not FORMS.index(since) <= form < (FORMS.index(until) if until else len(FORMS)):
            continue
        lines.append(_line(label, value) if name else f"{label:-^50}")
    lines.append("=" * 50)
    if not strict:
        lines += _own_lines(summary)
    return "\n".join(lines) + "\n"


def _own_lines(summary: Summary) -> list[str]:
    """What the block leaves out and a reader of it needs."""
    lines = [f"{' bench-client ':=^50}"]
    lines.append(_line("Failed requests:", f"{summary.requests.failed}"))
    lines += [_line(f"  {kind}:", f"{n}") for kind, n in summary.requests.failures.items()]
    rows = {
        "Decoding concurrency:": summary.concurrency.decoding_mean,
        "Mean queue time (ms):": summary.queue_ms.mean,
        "Verify step (ms):": summary.speculation.step_ms if summary.speculation else None,
    }
    lines += [_line(label, f"{value:.2f}") for label, value in rows.items() if value is not None]
    sources = summary.speculation.accept_length_sources if summary.speculation else {}
    lines += [
        _line(f"Accept length ({source}):", "unknown" if value is None else f"{value:.2f}")
        for source, value in sources.items()
    ]
    lines.append(_line("Verdict:", summary.verdict))
    return [*lines, "=" * 50]
