"""The nouns: what was planned, what was seen. Raw instants only; every figure is derived.

All instants are integer nanoseconds since the run began (`Run.began_unix_ns`, CLOCK_REALTIME).
These structs are the results contract: `run.json` is a `RunHeader`, each line of
`requests.jsonl` a `RequestRecord`.
"""

from typing import Any, Literal

from msgspec import Struct

FORMAT = 1

Outcome = Literal["ok", "failed"]
TokenCountSource = Literal["token_ids", "usage_delta", "native", "final_usage", "tokenizer"]
StampSource = Literal["kernel", "user"]
Api = Literal["chat", "completions", "generate"]
Language = Literal["en", "zh"]


class Message(Struct, frozen=True):
    """One chat message."""

    role: str
    content: str


class PlannedRequest(Struct, frozen=True, kw_only=True):
    """One request, decided before the clock starts.

    `scheduled_ns` counts from the start of its repeat. It is null in a closed loop, where a request
    is due when a slot falls free.
    `messages` is left out of `run.json`; the text is known there by `prompt_sha256`.
    A chained request holds `{previous_answer}` and is completed when that answer has ended.
    """

    id: str
    prompt_index: int
    prompt_id: str
    prompt_sha256: str
    repeat: int
    max_tokens: int
    seed: int
    language: str | None = None
    scheduled_ns: int | None = None
    chained: bool = False
    messages: tuple[Message, ...] = ()


class Load(Struct, frozen=True, kw_only=True):
    """Closed loop: `concurrency` slots. Open loop: `request_rate` per second.

    `rate_limit` (`2/s`, `60/min`) is what the client holds requests back to, whatever the loop.
    """

    kind: Literal["closed", "open"]
    concurrency: int | None = None
    request_rate: float | None = None
    burstiness: float | None = None
    max_concurrency: int | None = None
    rate_limit: str | None = None


class Sampling(Struct, frozen=True, kw_only=True):
    """Sampling sent with every request."""

    temperature: float = 0.6
    ignore_eos: bool = False
    extra_body: dict[str, Any] = {}


class Plan(Struct, frozen=True, kw_only=True):
    """What goes in: everything about the run that can be known before it."""

    scenario: str
    seed: int
    repeats: int
    load: Load
    sampling: Sampling
    requests: tuple[PlannedRequest, ...]
    warmup: tuple[PlannedRequest, ...] = ()
    api: Api = "chat"
    chained: bool = False


class Failure(Struct, frozen=True):
    """Why a request failed: a kind to count by, and one line."""

    kind: str
    message: str


class Events(Struct, frozen=True):
    """Token-bearing events of one response: arrival and token count of each (null: unknown)."""

    at_ns: tuple[int, ...] = ()
    tokens: tuple[int | None, ...] = ()


class Accept(Struct, frozen=True, kw_only=True):
    """What the server itself said of one request's speculation.

    `tokens` are those that came out of the `verify_steps` (the first token of a response comes
    from the prefill on vLLM and SGLang). `accepted_tokens` leaves the bonus token out;
    `histogram[j]` counts the steps that accepted j drafts.
    """

    source: str
    verify_steps: int
    tokens: int | None = None
    accepted_tokens: int | None = None
    draft_tokens: int | None = None
    histogram: tuple[int, ...] = ()


class RequestRecord(Struct, frozen=True, kw_only=True):
    """What was seen of one request. Null is unknown or never reached."""

    id: str
    prompt_index: int
    prompt_sha256: str
    repeat: int
    scheduled_ns: int
    sent_ns: int | None
    first_token_ns: int | None
    last_token_ns: int | None
    done_ns: int | None
    outcome: Outcome
    failure: Failure | None
    finish_reason: str | None
    input_tokens: int | None
    output_tokens: int | None
    token_count_source: TokenCountSource | None
    stamps: StampSource
    events: Events
    reads: int
    accept: Accept | None
    output_sha256: str | None
    output_text: str | None = None
    output_token_ids: tuple[int, ...] | None = None
    cached_tokens: int | None = None
    reopened: bool = False
    rate_limited: int = 0
    worker: str | None = None


class Memory(Struct, frozen=True, kw_only=True):
    """Where a server's memory went, by its own account, on one GPU (rank 0). Null is unknown.

    `weights_gib` is the target's; with the draft's in it if `draft_in_weights`. The KV cache of
    vLLM holds the draft's keys and values too, SGLang's has a pool of its own for them.
    `cuda_graphs_gib` is of all graphs, the draft's included. `free_gib` is what was left.
    """

    weights_gib: float | None = None
    draft_weights_gib: float | None = None
    draft_in_weights: bool = False
    kv_cache_gib: float | None = None
    kv_cache_tokens: int | None = None
    draft_kv_cache_gib: float | None = None
    cuda_graphs_gib: float | None = None
    activations_gib: float | None = None
    free_gib: float | None = None


class Server(Struct, frozen=True, kw_only=True):
    """The server under test: as asked, and as it reports itself.

    `counters_before` and `counters_after` are its own counters at both ends of the measured
    window; `log_windows` the file and byte range of each log that it covers. `unmet` says, a line
    each, where its own report is not what it was launched for; `teardown` what was left of it once
    it had been stopped: processes, its port, GPU memory.
    """

    name: str
    url: str
    engine: str | None = None
    engine_version: str | None = None
    argv: tuple[str, ...] = ()
    model: str | None = None
    draft_model: str | None = None
    speculative: dict[str, Any] | None = None
    speculative_asked: dict[str, Any] | None = None
    unmet: tuple[str, ...] = ()
    simulated: bool = False
    log: str | None = None
    log_windows: tuple[tuple[str, int, int], ...] = ()
    facts: dict[str, Any] = {}
    memory: Memory | None = None
    counters_before: dict[str, float] | None = None
    counters_after: dict[str, float] | None = None
    ready_s: float | None = None
    exit: str | None = None
    teardown: tuple[str, ...] = ()


class Clock(Struct, frozen=True, kw_only=True):
    """CLOCK_REALTIME against CLOCK_MONOTONIC over the run: the largest step seen, in ns."""

    step_ns: int
    checks: int


class Calibration(Struct, frozen=True, kw_only=True):
    """The client's own error at a load, against a server that stamps its writes (ms).

    `planned_events_per_s` is the load that was asked for, null where it is not known;
    `events_per_s` the one that was carried. `server_slower` is by how much longer the server took
    over its answers than it was to (0.1: a tenth). Of too few values a p99 is null and the largest
    stands for it; `answers` is how many TTFTs there were.
    """

    streams: int
    events: int
    events_per_s: float
    ttft_error_mean_ms: float
    ttft_error_p99_ms: float | None
    gap_error_p99_ms: float | None
    gap_p99_difference_ms: float | None
    merged_events: int
    cpu_us_per_event: float | None = None
    answers: int | None = None
    ttft_error_max_ms: float | None = None
    gap_error_max_ms: float | None = None
    planned_events_per_s: float | None = None
    server_slower: float | None = None


class WorkerClock(Struct, frozen=True, kw_only=True):
    """Where a worker of another machine ran, and its clock.

    `offset_ns` is its CLOCK_REALTIME minus the conductor's before the start, off by at most
    `uncertainty_ns`. The worker's instants count from the common start on its own clock.
    """

    worker: str
    host: str
    offset_ns: int
    uncertainty_ns: int


class Client(Struct, frozen=True, kw_only=True):
    """The measuring side: what it ran on and how it fared."""

    python: str
    transport: str
    stamp_source: StampSource | None = None
    workers: int = 1
    connect_ms: tuple[float, ...] = ()
    cpu_s: float | None = None
    loop_lag_ms_max: float | None = None
    clock: Clock | None = None
    worker_clocks: tuple[WorkerClock, ...] = ()
    calibration: Calibration | None = None


class Imported(Struct, frozen=True, kw_only=True):
    """Where a run that another tool made came from.

    `samples` holds its per-prompt or per-log-line values by figure name (as in `Summary`),
    `figures` the aggregates that the tool printed, under their names in `Summary` where they
    mean the same (nested by dots: `ttft_ms.mean`), `definitions` what a figure means where it
    differs from docs/method.md.
    """

    tool: str
    version: str | None = None
    file: str | None = None
    label: str | None = None
    samples: dict[str, tuple[float, ...]] = {}
    figures: dict[str, float | None] = {}
    definitions: dict[str, str] = {}
    findings: tuple[str, ...] = ()


class RunHeader(Struct, frozen=True, kw_only=True):
    """`run.json`: written when the run begins and again when it ends."""

    format: int
    bench_client_version: str
    started_at: str
    began_unix_ns: int
    argv: tuple[str, ...]
    plan: Plan
    server: Server
    environment: dict[str, Any]
    client: Client
    duration_ns: int | None = None
    ended: Literal["complete", "interrupted", "aborted"] | None = None
    note: str | None = None
    imported: Imported | None = None


class Run(Struct, frozen=True, kw_only=True):
    """One run, read back or just made. `telemetry` rows are as sampled, oldest first."""

    header: RunHeader
    records: tuple[RequestRecord, ...]
    telemetry: tuple[dict[str, Any], ...] = ()
    log_text: str | None = None
    path: str | None = None
