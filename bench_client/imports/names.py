"""What other tools call a figure -> its name here.

A name that `Summary` has too means the same there; the others are a tool's own. Printed labels are
compared in lower case with single spaces.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from bench_client.imports.values import number

# Settings are labels too, without a figure.
LABELS = {
    "backend": "",
    "traffic request rate": "",
    "request rate configured (rps)": "",
    "max reqeuest concurrency": "",  # sglang 0.4.4's spelling
    "max request concurrency": "",
    "maximum request concurrency": "",
    "successful requests": "requests.ok",
    "failed requests": "requests.failed",
    "benchmark duration (s)": "duration_s",
    "total input tokens": "input_tokens",
    "total input text tokens": "input_text_tokens",
    "total input vision tokens": "input_vision_tokens",
    "total generated tokens": "output_tokens",
    "total generated tokens (retokenized)": "output_tokens_retokenized",
    "request throughput (req/s)": "throughput.request_per_s",
    "input token throughput (tok/s)": "throughput.input_tok_per_s",
    "output token throughput (tok/s)": "throughput.output_tok_per_s",
    "peak output token throughput (tok/s)": "peak_output_events_per_s",
    "peak concurrent requests": "peak_requests_in_one_second",
    "total token throughput (tok/s)": "throughput.total_tok_per_s",
    "concurrency": "concurrency.mean",
    "accept length": "speculation.accept_length",
    "acceptance length": "speculation.accept_length",
    "per-position acceptance (%)": "",
    "acceptance rate (%)": "speculation.draft_acceptance_pct",
    "drafts": "speculation.verify_steps",
    "draft tokens": "speculation.draft_tokens",
    "accepted tokens": "speculation.accepted_tokens",
    "request goodput (req/s)": "goodput_request_per_s",
    "slo attainment (%)": "slo_attainment_pct",
    "total prompt tokens": "cache.prompt_tokens",
    "total cached tokens": "cache.cached_tokens",
    "cache hit rate": "cache.hit_pct",
}
JSON_KEYS = {
    "completed": "requests.ok",
    "failed": "requests.failed",
    "duration": "duration_s",
    "total_input_tokens": "input_tokens",
    "total_input_text_tokens": "input_text_tokens",
    "total_input_vision_tokens": "input_vision_tokens",
    "total_output_tokens": "output_tokens",
    "total_output_tokens_retokenized": "output_tokens_retokenized",
    "request_throughput": "throughput.request_per_s",
    "input_throughput": "throughput.input_tok_per_s",
    "output_throughput": "throughput.output_tok_per_s",
    "total_throughput": "throughput.total_tok_per_s",
    "total_token_throughput": "throughput.total_tok_per_s",
    "max_output_tokens_per_s": "peak_output_events_per_s",
    "max_concurrent_requests": "peak_requests_in_one_second",
    "concurrency": "concurrency.mean",
    "accept_length": "speculation.accept_length",
    "spec_decode_acceptance_length": "speculation.accept_length",
    "spec_decode_acceptance_rate": "speculation.draft_acceptance_pct",
    "spec_decode_num_drafts": "speculation.verify_steps",
    "spec_decode_draft_tokens": "speculation.draft_tokens",
    "spec_decode_accepted_tokens": "speculation.accepted_tokens",
    "request_goodput": "goodput_request_per_s",
}
FAMILIES = {
    "ttft": "ttft_ms",
    "tpot": "tpot_ms",
    "itl": "itl_ms",
    "e2e latency": "e2e_ms",
    "e2el": "e2e_ms",
    "client queue time": "queue_ms",
    "e2el incl. client queue": "e2e_from_schedule_ms",
    "e2el including client queue": "e2e_from_schedule_ms",
}
# `std` is not `sd`: both tools divide by n, `Summary` by n - 1.
STATISTICS = {"mean": "mean", "median": "p50", "std": "std", "max": "max"}

_STATISTIC = re.compile(r"(mean|median|std|max|p\d+(?:\.\d+)?)[ _](.+?)(?: \(ms\)|_ms)")
_POSITION = re.compile(r"position (\d+)")


def _spaced(labels: Iterable[str]) -> str:
    """A pattern of any of them, spaced in any way."""
    return "|".join(r"\s+".join(map(re.escape, label.split())) for label in labels)


# Any printed label, in whatever case and spacing.
LABEL = (
    rf"{_spaced(LABELS)}|position\s+\d+"
    rf"|(?:mean|median|std|max|p\d+(?:\.\d+)?)\s+(?:{_spaced(FAMILIES)})\s+\(ms\)"
)


def statistic_key(name: str) -> str | None:
    """`p99 ttft (ms)` or `p99_ttft_ms` -> `ttft_ms.p99`; None for another name."""
    match = _STATISTIC.fullmatch(name)
    family = FAMILIES.get(match.group(2).replace("_", " ")) if match else None
    if match is None or family is None:
        return None
    return f"{family}.{STATISTICS.get(match.group(1), match.group(1))}"


def label_key(label: str) -> str | None:
    """The figure of a printed label: "" for a setting, None for an unknown label."""
    if label in LABELS:
        return LABELS[label]
    if position := _POSITION.fullmatch(label):
        return f"speculation.per_position_pct.{position.group(1)}"
    return statistic_key(label)


def json_figures(entry: Mapping[str, Any]) -> dict[str, float | None]:
    """The aggregates of a JSON result under their names here."""
    found: dict[str, float | None] = {}
    for key, value in entry.items():
        name = JSON_KEYS.get(key) or statistic_key(key)
        if name:
            found[name] = number(value)
    return found


def per_event(figures: Mapping[str, float | None]) -> dict[str, float | None]:
    """An ITL that is one value an event, whatever its tokens, is a chunk gap here."""
    return {name.replace("itl_ms.", "chunk_gap_ms."): value for name, value in figures.items()}
