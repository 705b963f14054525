"""Structs for report tests, built from a few figures."""

import statistics
from collections.abc import Sequence

from bench_client.measure.figures import (
    Concurrency,
    Doubt,
    PairRow,
    PromptRow,
    Ratio,
    RequestCounts,
    Speculation,
    Stat,
    Summary,
    Throughput,
    TpsStat,
)
from bench_client.records import (
    FORMAT,
    Calibration,
    Client,
    Events,
    Failure,
    Load,
    Plan,
    RequestRecord,
    RunHeader,
    Sampling,
    Server,
)

VLLM_IN = (2803, 2530, 2860, 3078, 2904, 3759, 2652, 2966, 2970, 3248, 2850)
OUT = (1128, 1469, 2217, 1477, 1268, 1122, 1559, 2051, 1422, 855, 1550)
CALIBRATION = Calibration(
    streams=1,
    events=4000,
    events_per_s=44.0,
    ttft_error_mean_ms=0.104,
    ttft_error_p99_ms=0.21,
    gap_error_p99_ms=0.052,
    gap_p99_difference_ms=0.01,
    merged_events=0,
    planned_events_per_s=44.0,
)


def stat(values: Sequence[float], ci95: tuple[float, float] | None = None) -> Stat:
    """Mean, sd and extremes of `values`; no percentile beyond the median."""
    many = len(values) > 1
    return Stat(
        n=len(values),
        mean=statistics.fmean(values) if values else None,
        sd=statistics.stdev(values) if many else None,
        ci95=ci95 if many else None,
        p50=statistics.median(values) if values else None,
        min=min(values, default=None),
        max=max(values, default=None),
    )


def tps_stat(
    values: Sequence[float], ci95: tuple[float, float] | None, pooled: float | None
) -> TpsStat:
    """As `stat`, with the pooled rate."""
    plain = stat(values, ci95)
    return TpsStat(
        n=plain.n,
        mean=plain.mean,
        sd=plain.sd,
        ci95=plain.ci95,
        p50=plain.p50,
        min=plain.min,
        max=plain.max,
        pooled=pooled,
    )


def sha256(index: int) -> str:
    """A hash that differs in its first digits, as hashes do."""
    return f"{index + 1:08x}{'e' * 56}"


def row(index: int, tps: float, accept: float | None = None, ttft_ms: float = 478.0) -> PromptRow:
    """One ended request at `tps` decode."""
    out = OUT[index]
    seconds = ttft_ms / 1e3 + (out - 1) / tps
    step = (accept or 1.0) / tps * 1e3
    return PromptRow(
        id=f"r{index}",
        prompt_index=index,
        prompt_id=f"chain-{index + 1:02}",
        language="zh" if index in (1, 3) else "en",
        repeat=0,
        outcome="ok",
        finish_reason="stop",
        input_tokens=VLLM_IN[index],
        output_tokens=out,
        ttft_ms=ttft_ms + 7 * index,
        e2e_ms=seconds * 1e3,
        tps_e2e=out / seconds,
        tps_decode=tps,
        accept_length=accept,
        verify_steps=round(out / accept) if accept else None,
        step_ms=step,
        prompt_sha256=sha256(index),
    )


def failed_row(index: int) -> PromptRow:
    """One request of which only the prompt is known."""
    return PromptRow(
        id=f"r{index}",
        prompt_index=index,
        prompt_id=f"chain-{index + 1:02}",
        language="en",
        repeat=0,
        outcome="failed",
        finish_reason=None,
        input_tokens=None,
        output_tokens=None,
        ttft_ms=None,
        e2e_ms=None,
        tps_e2e=None,
        tps_decode=None,
        accept_length=None,
        verify_steps=None,
        step_ms=None,
        prompt_sha256=sha256(index),
    )


def record(row: PromptRow, began_ns: int, failure: Failure | None = None) -> RequestRecord:
    """The record behind a row: ten token events, evenly spaced."""
    tokens = row.output_tokens or 0
    first = began_ns + round((row.ttft_ms or 0) * 1e6)
    last = began_ns + round((row.e2e_ms or 0) * 1e6)
    at = tuple(first + (last - first) * i // 9 for i in range(10)) if tokens else ()
    shares = tuple(tokens * (i + 1) // 10 - tokens * i // 10 for i in range(10)) if tokens else ()
    return RequestRecord(
        id=row.id,
        prompt_index=row.prompt_index,
        prompt_sha256=sha256(row.prompt_index),
        repeat=row.repeat,
        scheduled_ns=began_ns,
        sent_ns=began_ns,
        first_token_ns=first if tokens else None,
        last_token_ns=last if tokens else None,
        done_ns=last,
        outcome="failed" if failure else "ok",
        failure=failure,
        finish_reason=row.finish_reason,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        token_count_source="usage_delta" if tokens else None,
        stamps="kernel",
        events=Events(at_ns=at, tokens=shares),
        reads=len(at),
        accept=None,
        output_sha256=None,
    )


def records(rows: Sequence[PromptRow], failures: dict[str, str]) -> tuple[RequestRecord, ...]:
    """One after another, as in a closed loop of one."""
    made, now = [], 0
    for each in rows:
        kind = failures.get(each.id)
        made.append(record(each, now, Failure(kind, "no token for 30 s") if kind else None))
        now += round((each.e2e_ms or 0) * 1e6)
    return tuple(made)


def server(name: str, draft: str | None = None) -> Server:
    """SGLang on an L40."""
    asked = {"algorithm": "EAGLE3", "num_steps": 7, "topk": 10, "num_draft_tokens": 60}
    return Server(
        name=name,
        url="http://127.0.0.1:30000",
        engine="SGLang",
        engine_version="0.5.6",
        argv=("python", "-m", "sglang.launch_server", "--model-path", "Qwen/Qwen3-8B"),
        model="Qwen/Qwen3-8B",
        draft_model=draft,
        speculative=asked if draft else None,
        speculative_asked=asked if draft else None,
    )


def header(server: Server, calibration: Calibration | None = CALIBRATION) -> RunHeader:
    """Eleven prompts one after another."""
    return RunHeader(
        format=FORMAT,
        bench_client_version="0.1.0",
        started_at="2026-11-30T12:00:00Z",
        began_unix_ns=1_796_040_000_000_000_000,
        argv=("bench-client", "run", "--server", server.name, "--scenario", "serial-zh"),
        plan=Plan(
            scenario="serial-zh",
            seed=0,
            repeats=1,
            load=Load(kind="closed", concurrency=1),
            sampling=Sampling(),
            requests=(),
            chained=True,
        ),
        server=server,
        environment={"host": "node-1", "gpu": {"name": "NVIDIA L40", "driver": "570.86"}},
        client=Client(
            python="3.11.7", transport="wire", stamp_source="kernel", calibration=calibration
        ),
        duration_ns=382_000_000_000,
        ended="complete",
    )


def summary(
    rows: Sequence[PromptRow],
    tps_ci: tuple[float, float] | None,
    e2e_ci: tuple[float, float] | None,
    *,
    speculation: Speculation | None = None,
    failures: dict[str, int] | None = None,
    doubts: tuple[Doubt, ...] = (),
    calibration: Calibration | None = CALIBRATION,
) -> Summary:
    """The figures of `rows`."""
    ok = [each for each in rows if each.outcome == "ok"]
    seconds = sum(each.e2e_ms or 0 for each in ok) / 1e3
    tokens_in = sum(each.input_tokens or 0 for each in ok)
    tokens_out = sum(each.output_tokens or 0 for each in ok)
    decode = [each.tps_decode or 0 for each in ok]
    gaps = stat([1e3 / rate for rate in decode])
    return Summary(
        requests=RequestCounts(ok=len(ok), failed=len(rows) - len(ok), failures=failures or {}),
        duration_s=seconds,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        throughput=Throughput(
            request_per_s=len(ok) / seconds,
            input_tok_per_s=tokens_in / seconds,
            output_tok_per_s=tokens_out / seconds,
            total_tok_per_s=(tokens_in + tokens_out) / seconds,
        ),
        concurrency=Concurrency(mean=1.0, peak=1, decoding_mean=0.987),
        ttft_ms=stat([each.ttft_ms or 0 for each in ok], (499.0, 527.0)),
        itl_ms=gaps,
        chunk_gap_ms=gaps,
        tpot_ms=gaps,
        e2e_ms=stat([each.e2e_ms or 0 for each in ok]),
        queue_ms=Stat(n=0),
        tps_e2e=tps_stat([each.tps_e2e or 0 for each in ok], e2e_ci, tokens_out / seconds),
        tps_decode=stat(decode, tps_ci),
        step_ms=stat([each.step_ms or 0 for each in ok]),
        speculation=speculation,
        telemetry={},
        calibration=calibration,
        doubts=doubts,
        verdict="invalid" if failures else "doubtful" if doubts else "valid",
        rows=tuple(rows),
    )


def ratio(
    value: float, ci95: tuple[float, float] | None, means: tuple[float, float], mdd: float | None
) -> Ratio:
    """A ratio of unpaired means."""
    return Ratio(
        figure="",
        ratio=value,
        ci95=ci95,
        paired=False,
        n=(11, 11),
        baseline_mean=means[0],
        other_mean=means[1],
        mdd=mdd,
    )


def pair_row(language: str, accept_length: float) -> PairRow:
    """One prompt in both arms, of a language."""
    return PairRow(
        prompt_index=0,
        prompt_id=None,
        language=language,
        baseline_tps_decode=40.0,
        other_tps_decode=80.0,
        speedup=2.0,
        accept_length=accept_length,
    )
