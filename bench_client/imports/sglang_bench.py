"""sglang.bench_serving (since 0.5.14 sglang.benchmark.serving): printed block and JSONL.

Definitions are those of `calculate_metrics` in 0.5.23. The JSON leaves out when requests started.
"""

import heapq
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from bench_client.imports.as_run import Request, Source, Told
from bench_client.imports.bench import bench_run, labelled, load_of
from bench_client.imports.names import json_figures, per_event
from bench_client.imports.printed import Block
from bench_client.imports.values import column, gap_lists, number, numbers, rate_of, whole, word
from bench_client.records import Api, Load, Run

TOOL = "sglang.bench_serving"
NATIVE = ("sglang", "sglang-native")

# First match wins: labels that only these versions print.
PRINTED_BY = (
    ("max reqeuest concurrency", "0.4.4"),
    ("p95 e2e latency (ms)", "0.5.23"),
    ("p90 e2e latency (ms)", "0.5.8 to 0.5.13"),
    ("mean tpot (ms)", "0.5.6"),
    ("total input text tokens", "0.5.5"),
    ("backend", "0.4.9 to 0.5.3"),
)

DEFINITIONS = {
    "ttft_ms": "from the POST, after the client's own queue; the server's queue is in it",
    "e2e_ms": "to the last line of the stream, usage and [DONE] included",
    "duration_s": "to after the GET of /server_info",
    "percentiles": "numpy's, linear, of all values; std divides by n",
    "peak_output_events_per_s": "events, not tokens, in the fullest second",
    "peak_requests_in_one_second": "requests that touch one second, at the same time or not",
    "speculation.accept_length": (
        "the server's average since it started or was flushed, warm-up included, of rank 0 alone"
    ),
}
PER_TOKEN = {"itl_ms": "a chunk's gap spread evenly over its tokens"}
PER_EVENT = {"chunk_gap_ms": "gaps between events, whatever their tokens; printed as ITL"}
REQUESTED = {
    "output_tokens": "the requested length where the server sent no usage; compare the retokenized"
}
NO_STARTS = (
    "The file does not say when requests were sent: their records all begin at 0, which is no "
    "schedule."
)
REPLAYED_STARTS = (
    "The file does not say when requests were sent: each is taken to begin, in order, when a slot "
    "falls free."
)


TRACE = (
    "Requests were sent at the times of a trace; for want of a rate the load is given as all at "
    "once."
)


def _api(backend: str) -> Api:
    if backend in NATIVE:
        return "generate"
    return "chat" if backend.endswith("chat") else "completions"


def _definitions(backend: str, per_token: bool) -> dict[str, str]:
    exact = backend in NATIVE
    return DEFINITIONS | (PER_TOKEN if per_token else PER_EVENT) | ({} if exact else REQUESTED)


def _per_token(backend: str, figures: Mapping[str, float | None]) -> bool:
    """Native streams count tokens; sglang-oai divides gaps under speculation since 0.5.5."""
    divides = "input_text_tokens" in figures and figures.get("speculation.accept_length")
    return backend in NATIVE or bool(divides and backend in ("sglang-oai", "sglang-oai-chat"))


def block_run(block: Block, source: Source) -> Run:
    """A printed block as a run: aggregates only. It tells no failed requests."""
    backend, figures = block.values["backend"], block.figures()
    per_token = _per_token(backend, figures)
    version = next(version for label, version in PRINTED_BY if label in block.values)
    told = Told(
        tool=TOOL,
        version=None if block.cut_after else version,
        engine=backend.partition("-")[0],
        api=_api(backend),
        load=load_of(
            block.setting("traffic request rate"),
            block.setting("max request concurrency", "max reqeuest concurrency"),
        ),
        seconds=figures.get("duration_s"),
        definitions=_definitions(backend, per_token),
    )
    figures = figures if per_token else per_event(figures)
    trace = (TRACE,) if block.values.get("traffic request rate") == "trace" else ()
    return bench_run(told, source, figures, (), (*block.findings(), *trace))


def is_json(entry: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a line of its output file."""
    return "total_output_tokens_retokenized" in entry and "mean_e2e_latency_ms" in entry


def json_run(entry: Mapping[str, Any], source: Source) -> Run:
    """One line of the output file as a run; with requests if it was run with --output-details."""
    backend, figures = str(entry.get("backend", "sglang")), json_figures(entry)
    per_token = _per_token(backend, figures)
    traced = entry.get("request_rate") == "trace"
    rate = None if traced else rate_of(entry.get("request_rate"))
    load = load_of(rate, number(entry.get("max_concurrency")))
    info = entry.get("server_info")
    info = info if isinstance(info, dict) else {}
    requests = _requests(entry, backend, load)
    replayed = load.request_rate is None and not traced
    starts = REPLAYED_STARTS if replayed else NO_STARTS
    told = Told(
        tool=TOOL,
        version=word(info.get("version")),
        engine=backend.partition("-")[0],
        api=_api(backend),
        model=word(info.get("served_model_name")) or word(info.get("model_path")),
        load=load,
        seconds=figures.get("duration_s"),
        definitions=_definitions(backend, per_token),
    )
    found = (*((starts,) if requests else ()), *((TRACE,) if traced else ()))
    figures = figures if per_token else per_event(figures)
    source = labelled(source, told, figures, word(entry.get("tag")))
    return bench_run(told, source, figures, requests, found)


def _requests(entry: Mapping[str, Any], backend: str, load: Load) -> list[Request]:
    """The requests of --output-details. A latency is TTFT + gaps: to the last event with text."""
    if not isinstance(entry.get("ttfts"), list):
        return []
    count = len(entry["ttfts"])
    ttfts = numbers(entry, "ttfts", count)
    gaps = gap_lists(entry, "itls", count)
    ends = [_latency(*parts) for parts in zip(ttfts, gaps, strict=True)]
    errors = [str(error or "") for error in column(entry, "errors", count)]
    inputs = column(entry, "input_lens", count)
    outputs = column(entry, "output_lens", count)
    texts = column(entry, "generated_texts", count)
    return [
        _request(
            Request(
                start=start,
                first=_after(start, ttfts[i]),
                end=_after(start, ends[i]),
                input_tokens=whole(inputs[i]),
                output_tokens=whole(outputs[i]),
                error=errors[i],
                text=word(texts[i]),
            ),
            gaps[i],
            backend in NATIVE,
        )
        for i, start in enumerate(replayed_starts(ends, load))
    ]


def _latency(ttft: float | None, gaps: Sequence[float] | None) -> float | None:
    return None if ttft is None or gaps is None else ttft + sum(gaps)


def _after(start: float, seconds: float | None) -> float | None:
    return None if seconds is None else start + seconds


def _request(request: Request, gaps: Sequence[float] | None, native: bool) -> Request:
    """The native backend repeats a chunk's gap once a token: equal neighbours are one event."""
    if not native or gaps is None:
        return replace(request, gaps=gaps)
    runs = [(gap, len(list(same))) for gap, same in groupby(gaps)]
    return replace(
        request,
        count_source="native",
        gaps=[gap * tokens for gap, tokens in runs],
        gap_tokens=[tokens for _, tokens in runs],
    )


def replayed_starts(latencies: Sequence[float | None], load: Load) -> list[float]:
    """When each request was sent if all were due at 0 and waited, in order, for a free slot.

    That is what the tool does at an infinite rate. At a finite rate the starts are unknown, and so
    they are if a latency is: zeros.
    """
    known = [latency for latency in latencies if latency is not None]
    if load.concurrency is None or len(known) != len(latencies):
        return [0.0] * len(latencies)
    free = [0.0] * min(load.concurrency, len(known))
    starts: list[float] = []
    for latency in known:
        start = heapq.heappop(free)
        starts.append(start)
        heapq.heappush(free, start + latency)
    return starts
