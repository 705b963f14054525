"""A run's figures as sglang.bench_serving and `vllm bench serve` define them.

They differ from docs/method.md: percentiles are numpy's of however few values, std divides by n,
and what they print as ITL is one value a token or one an event, by backend. Names are those of
imported figures.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from bench_client.measure.figures import Summary
from bench_client.measure.timeline import chunk_gaps_ms, itl_ms, ok_records, queues_known
from bench_client.records import RequestRecord, Run

Figures = dict[str, float | None]
Tool = Literal["sglang", "vllm"]
FloatArray = npt.NDArray[np.float64]

PERCENTILES = (50, 90, 95, 99)
ACCEPT_LENGTH = "speculation.accept_length"
RETOKENIZED = "output_tokens_retokenized"

# (engine, API) -> what its --backend would be called.
_BACKENDS = {
    ("sglang", "generate"): "sglang",
    ("sglang", "completions"): "sglang-oai",
    ("sglang", "chat"): "sglang-oai-chat",
    ("vllm", "completions"): "vllm",
    ("vllm", "chat"): "vllm-chat",
}
# Backends whose stream counts tokens, and those whose gaps are spread over the tokens of their text
# where the server reports an accept length.
_NATIVE = ("sglang", "sglang-native")
_SPREAD = ("sglang-oai", "sglang-oai-chat")


def backend(run: Run) -> str:
    """What its --backend would be called; another engine's own name."""
    server, api = run.header.server, run.header.plan.api
    engine = server.engine or server.name
    return _BACKENDS.get((engine, api), engine)


def latency_s(record: RequestRecord, tool: Tool) -> float | None:
    """To the last line of the stream (sglang), or to the last token (vLLM)."""
    end = record.done_ns if tool == "sglang" else record.last_token_ns
    return None if end is None or record.sent_ns is None else (end - record.sent_ns) / 1e9


def ttft_s(record: RequestRecord) -> float | None:
    """From the send to the first token."""
    if record.first_token_ns is None or record.sent_ns is None:
        return None
    return (record.first_token_ns - record.sent_ns) / 1e9


def waits_s(run: Run) -> list[float | None]:
    """From each request's arrival to its send. All of a closed loop arrive as it begins."""
    arrivals: dict[int, int] = {}
    for record in run.records if run.header.plan.load.kind == "closed" else ():
        first = arrivals.setdefault(record.repeat, record.scheduled_ns)
        arrivals[record.repeat] = min(first, record.scheduled_ns)
    return [
        None
        if record.sent_ns is None
        else (record.sent_ns - arrivals.get(record.repeat, record.scheduled_ns)) / 1e9
        for record in run.records
    ]


def gaps_s(record: RequestRecord, via: str) -> list[float] | None:
    """What their stream readers keep as ITLs: one a token on a native backend, else one an event.

    Null where a token count is missing.
    """
    return _gaps_s(record, per_token=via in _NATIVE)


def _gaps_s(record: RequestRecord, *, per_token: bool) -> list[float] | None:
    if per_token and None in record.events.tokens[1:]:
        return None
    values = itl_ms(record) if per_token else chunk_gaps_ms(record)
    return [value / 1e3 for value in values.tolist()]


def _all_gaps_s(records: Sequence[RequestRecord], *, per_token: bool) -> list[float] | None:
    gaps = [_gaps_s(record, per_token=per_token) for record in records]
    known = [each for each in gaps if each is not None]
    return [gap for each in known for gap in each] if len(known) == len(gaps) else None


def _tpot_s(record: RequestRecord, tool: Tool) -> float | None:
    latency, ttft, tokens = latency_s(record, tool), ttft_s(record), record.output_tokens
    if latency is None or ttft is None or tokens is None or tokens < 2:
        return None
    return (latency - ttft) / (tokens - 1)


def _distribution(name: str, values_s: Iterable[float | None], *, empty: float | None) -> Figures:
    values = np.array([value for value in values_s if value is not None]) * 1e3
    statistics = ("mean", "std", "max", *(f"p{q}" for q in PERCENTILES))
    if not len(values):
        return dict.fromkeys((f"{name}.{statistic}" for statistic in statistics), empty)
    found = [float(values.mean()), float(values.std()), float(values.max())]
    found += np.percentile(values, PERCENTILES).tolist()
    return {f"{name}.{key}": value for key, value in zip(statistics, found, strict=True)}


def _fullest_second(
    records: Sequence[RequestRecord], tool: Tool, via: str
) -> tuple[float | None, float | None]:
    """Most entries of `gaps_s`, and most requests seen, in any second since the first send."""
    known = [
        (record.sent_ns / 1e9, ttft, latency, gaps_s(record, via))
        for record in records
        if record.sent_ns is not None
        and (ttft := ttft_s(record)) is not None
        and (latency := latency_s(record, tool)) is not None
    ]
    if len(known) != len(records):
        return None, None
    if not known:
        return 0.0, 0.0
    zero = min(sent for sent, *_ in known)
    seconds = int(np.ceil(max(sent + latency for sent, _, latency, _ in known) - zero)) + 1
    tokens, requests = np.zeros(seconds), np.zeros(seconds)
    for sent, ttft, latency, gaps in known:
        at = sent + ttft - zero + np.cumsum([0.0, *(gaps or ())])
        buckets = at.astype(np.int64)
        np.add.at(tokens, buckets[(buckets >= 0) & (buckets < seconds)], 1)
        requests[int(sent - zero) : int(sent + latency - zero) + 1] += 1
    counted = all(gaps is not None for *_, gaps in known)
    return float(tokens.max()) if counted else None, float(requests.max())


def _per_second(amount: float | None, seconds: float | None) -> float | None:
    return None if amount is None or not seconds else amount / seconds


def _totals(summary: Summary) -> Figures:
    seconds = summary.duration_s
    inputs, outputs = summary.input_tokens, summary.output_tokens
    total = None if inputs is None or outputs is None else inputs + outputs
    return {
        "requests.ok": float(summary.requests.ok),
        "requests.failed": float(summary.requests.failed),
        "duration_s": seconds,
        "input_tokens": inputs,
        "input_text_tokens": inputs,
        "input_vision_tokens": 0.0,
        "output_tokens": outputs,
        RETOKENIZED: outputs,
        "throughput.request_per_s": _per_second(summary.requests.ok, seconds),
        "throughput.input_tok_per_s": _per_second(inputs, seconds),
        "throughput.output_tok_per_s": _per_second(outputs, seconds),
        "throughput.total_tok_per_s": _per_second(total, seconds),
    }


def _accept_length(summary: Summary) -> float | None:
    """The server's own: what the client saw is only a bound."""
    found = summary.speculation
    if found is None or found.accept_length_source == "client_events":
        return None
    return found.accept_length


def bench_figures(run: Run, summary: Summary, tool: Tool, *, divides: bool = True) -> Figures:
    """Everything that the tool's block or JSON holds; null is unknown, what it leaves out missing.

    Token counts here are exact, so the retokenized count is the same one. What an import's requests
    do not tell is as its own tool gave it. `divides`: sglang spreads the gaps of its OpenAI
    backends over their tokens under speculation, as it does since 0.5.4.post1.
    """
    told = dict(run.header.imported.figures) if run.header.imported else {}
    via = backend(run) if tool == "sglang" else tool
    speculates = bool(told.get(ACCEPT_LENGTH) or summary.speculation)
    per_token = via in _NATIVE or (divides and speculates and via in _SPREAD)
    if run.records or run.header.imported is None:
        made = _of_records(run, summary, tool, per_token=per_token)
        made[RETOKENIZED] = told.get(RETOKENIZED) or made[RETOKENIZED]
        told |= {name: value for name, value in made.items() if value is not None}
    left_out = "chunk_gap_ms." if per_token else "itl_ms."
    figures = {name: value for name, value in told.items() if not name.startswith(left_out)}
    if tool == "sglang":
        length = figures.pop(ACCEPT_LENGTH, None) or _accept_length(summary)
        if speculates and "sglang" in via:
            figures[ACCEPT_LENGTH] = length
    return figures


def _of_records(run: Run, summary: Summary, tool: Tool, *, per_token: bool) -> Figures:
    """With no request that ended well, times are 0, as vLLM prints; so are those between tokens
    where no request has two events.
    """
    ok = ok_records(run)
    empty = 0.0 if all(record.events.at_ns for record in ok) else None
    latencies = [latency_s(record, tool) for record in ok]
    known = [value for value in latencies if value is not None]
    complete = len(known) == len(ok)
    tokens, requests = _fullest_second(ok, tool, backend(run) if tool == "sglang" else tool)
    gaps = _all_gaps_s(ok, per_token=per_token)
    waited = dict(zip(map(id, run.records), waits_s(run), strict=True))
    waits = queues_known(run)
    queue = [waited[id(record)] if waits else None for record in ok]
    from_schedule = [
        None if latency is None or wait is None else latency + wait
        for latency, wait in zip(latencies, queue, strict=True)
    ]
    gap_name = "itl_ms" if per_token else "chunk_gap_ms"
    return {
        **_totals(summary),
        "concurrency.mean": _per_second(sum(known) if complete else None, summary.duration_s),
        "peak_output_events_per_s": tokens,
        "peak_requests_in_one_second": requests,
        **_distribution("e2e_ms", latencies, empty=empty),
        **_distribution("ttft_ms", (ttft_s(record) for record in ok), empty=empty),
        **_distribution("tpot_ms", (_tpot_s(record, tool) for record in ok), empty=empty),
        **_distribution(gap_name, gaps or (), empty=None if gaps is None else empty),
        **_distribution("queue_ms", queue, empty=empty if waits else None),
        **_distribution("e2e_from_schedule_ms", from_schedule, empty=empty if waits else None),
    }
