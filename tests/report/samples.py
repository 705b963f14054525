"""Real figures by hand: Qwen3-8B on an L40, eleven chained prompts, SGLang and vLLM with EAGLE3.

The logs gave decode tok/s and accept length per request (SGLang), tokens and seconds per request
(vLLM); token counts and TTFT of the SGLang arms and both languages are made up.
"""

from msgspec.structs import replace

from bench_client.measure.figures import (
    AnswerPart,
    Comparison,
    Concurrency,
    Doubt,
    Explanation,
    Fit,
    Lossless,
    PairRow,
    RequestCounts,
    Speculation,
    Stat,
    Summary,
    Throughput,
)
from bench_client.records import (
    Imported,
    Load,
    Run,
    Server,
)

from .building import (
    VLLM_IN,
    failed_row,
    header,
    ratio,
    records,
    row,
    server,
    stat,
    summary,
    tps_stat,
)

SGLANG_TPS = (44.34, 44.16, 43.91, 43.71, 43.93, 44.13, 43.94, 44.07, 44.11, 43.81, 43.84)
EAGLE3_TPS = (80.28, 75.12, 97.56, 71.04, 79.04, 101.87, 92.61, 101.80, 108.06, 94.86, 84.59)
EAGLE3_ACCEPT = (3.45, 3.23, 4.22, 3.08, 3.42, 4.38, 4.00, 4.40, 4.65, 4.10, 3.65)
PARTS = (
    AnswerPart(begin=0, end=31, answers=10, steps=83, accept_length=4.12, relative=1.06),
    AnswerPart(begin=32, end=1023, answers=10, steps=2501, accept_length=4.02, relative=1.04),
    AnswerPart(
        begin=1024,
        end=None,
        answers=8,
        steps=1237,
        accept_length=3.31,
        relative=0.86,
        relative_ci95=(0.82, 0.91),
    ),
)
VLLM_OUT = (1166, 647, 1481, 1644, 839, 1543, 1056, 2200, 1415, 1538, 2188)
VLLM_SECONDS = (27.20, 15.15, 34.53, 38.48, 19.70, 36.50, 24.61, 51.44, 33.09, 36.10, 51.08)


def sglang() -> tuple[Run, Summary]:
    """The baseline."""
    rows = [row(i, tps) for i, tps in enumerate(SGLANG_TPS)]
    run = Run(header=header(server("sglang")), records=records(rows, {}))
    return run, summary(rows, (43.89, 44.10), (43.21, 43.48))


def speculation(source: str = "per_request") -> Speculation:
    """Accept length by source, as SGLang and the client give it."""
    return Speculation(
        accept_length=3.87,
        accept_length_sources={
            "per_request": 3.87,
            "metrics": 3.88,
            "client_events": 3.91,
            "log": None,
        },
        accept_length_source=source,
        verify_steps=4168,
        step_ms=43.2,
        per_position=(0.82, 0.66, 0.51, 0.38, 0.24, 0.17, 0.09),
        by_language={"en": 4.03, "zh": 3.15},
        accept_length_per_request=stat(EAGLE3_ACCEPT, (3.51, 4.21)),
        by_answer_position=PARTS,
        by_answer_position_note="of 10 of 11 answers: events of the others are not one step each",
    )


def eagle3() -> tuple[Run, Summary]:
    """SGLang with EAGLE3: valid, one remark."""
    pairs = zip(EAGLE3_TPS, EAGLE3_ACCEPT, strict=True)
    rows = [row(i, tps, accept) for i, (tps, accept) in enumerate(pairs)]
    spec = server("sglang-eagle3", draft="AngelSlim/Qwen3-8B_eagle3")
    doubt = Doubt(
        code="prefix_cache",
        severity="doubtful",
        message="3 of 11 prompts hit the prefix cache, so their TTFT is too low; flush it between "
        "runs or use prompts that share no beginning",
    )
    found = summary(rows, (82.7, 96.6), (80.1, 93.4), speculation=speculation(), doubts=(doubt,))
    return Run(header=header(spec), records=records(rows, {})), found


def failing() -> tuple[Run, Summary]:
    """Three of eleven requests failed; not calibrated."""
    kinds = {"r2": "stall", "r5": "reset", "r9": "stall"}
    rows = [
        failed_row(i) if f"r{i}" in kinds else row(i, EAGLE3_TPS[i], EAGLE3_ACCEPT[i])
        for i in range(11)
    ]
    doubts = (
        Doubt("failed_requests", "invalid", "3 of 11 requests failed; see requests.jsonl"),
        Doubt("server_log_missing", "note", "the server's log is not at hand"),
    )
    run = Run(
        header=header(server("sglang-eagle3", "AngelSlim/Qwen3-8B_eagle3"), None),
        records=records(rows, kinds),
    )
    counts = {"reset": 1, "stall": 2}
    lengths = [each.accept_length for each in rows if each.accept_length]
    return run, summary(
        rows,
        None,
        None,
        speculation=replace(speculation(), accept_length_per_request=stat(lengths, (3.35, 4.27))),
        failures=counts,
        doubts=doubts,
        calibration=None,
    )


def comparison() -> Comparison:
    """EAGLE3 against plain SGLang, from the logs: unpaired, for the prompts were chained."""
    return Comparison(
        baseline="sglang",
        other="sglang-eagle3",
        paired=False,
        unpaired_reason="input lengths differ in 11 of 11 prompts, which were chained on answers",
        refused=None,
        ratios={
            "tps_decode": ratio(2.039, (1.882, 2.195), (44.0, 89.71), 0.08),
            "tps_e2e": ratio(1.982, (1.834, 2.129), (43.3, 85.8), 0.08),
        },
        why=Explanation(
            base_step_ms=22.7,
            step_ms=43.2,
            cost=1.90,
            accept_length=3.87,
            breakeven_accept_length=1.90,
            predicted_speedup=2.04,
            measured_speedup=2.039,
            sentence="each verify step yields 3.87 tokens and costs 1.90 plain steps "
            "(43.2 against 22.7 ms): 3.87 / 1.90 = 2.04x, measured 2.04x",
            fit=Fit(
                prompts=11,
                step_ms=43.2,
                spread=0.137,
                r2=0.9996,
                residual_rms=0.0029,
                worst_prompt="chain-04",
                worst_residual=-0.0047,
                sentence="accept length ÷ 43.2 ms a step explains 99.9% of the difference between "
                "prompts (sd 13.7%); residual 0.3%, largest at chain-04 (-0.5%)",
            ),
        ),
        lossless=Lossless(compared=0, equal=0, sentence="not compared: temperature is 0.6"),
        warnings=("the KV pool was 65% full: longer prompts would have queued",),
    )


def pair_rows() -> tuple[PairRow, ...]:
    """The same prompts in both arms."""
    return tuple(
        PairRow(
            prompt_index=i,
            prompt_id=f"chain-{i + 1:02}",
            language="zh" if i in (1, 3) else "en",
            baseline_tps_decode=base,
            other_tps_decode=other,
            speedup=other / base,
            accept_length=accept,
        )
        for i, (base, other, accept) in enumerate(
            zip(SGLANG_TPS, EAGLE3_TPS, EAGLE3_ACCEPT, strict=True)
        )
    )


def open_loop() -> tuple[Run, Summary]:
    """Two requests at a rate: too few for an interval, latency also from the schedule."""
    run, _ = sglang()
    rows = [row(i, SGLANG_TPS[i], ttft_ms=95.8) for i in range(2)]
    plan = replace(run.header.plan, load=Load(kind="open", request_rate=0.5), chained=False)
    few = summary(rows, None, None)
    few = replace(
        few,
        ttft_ms=stat([95.8, 102.8]),
        ttft_from_schedule_ms=stat([96.1, 26700.0]),
        e2e_from_schedule_ms=stat([26500.0, 60100.0]),
        queue_ms=stat([0.3, 26597.0]),
        concurrency=Concurrency(mean=1.92, peak=2, decoding_mean=None),
    )
    return replace(run, header=replace(run.header, plan=plan), records=records(rows, {})), few


def imported() -> tuple[Run, Summary]:
    """vLLM's own progress lines: tokens and seconds, nothing of single tokens, no rows."""
    run, _ = sglang()
    rates = [tokens / seconds for tokens, seconds in zip(VLLM_OUT, VLLM_SECONDS, strict=True)]
    nothing = Stat(n=0)
    found = Summary(
        requests=RequestCounts(ok=11, failed=0),
        duration_s=sum(VLLM_SECONDS),
        input_tokens=sum(VLLM_IN),
        output_tokens=sum(VLLM_OUT),
        throughput=Throughput(
            request_per_s=None, input_tok_per_s=None, output_tok_per_s=42.72, total_tok_per_s=None
        ),
        concurrency=Concurrency(mean=None, peak=1, decoding_mean=None),
        ttft_ms=nothing,
        itl_ms=nothing,
        chunk_gap_ms=nothing,
        tpot_ms=nothing,
        e2e_ms=stat([seconds * 1e3 for seconds in VLLM_SECONDS]),
        queue_ms=nothing,
        tps_e2e=tps_stat(rates, (42.61, 42.81), sum(VLLM_OUT) / sum(VLLM_SECONDS)),
        tps_decode=nothing,
        step_ms=nothing,
        speculation=None,
        telemetry={},
        calibration=None,
        doubts=(),
        verdict="valid",
    )
    origin = Imported(
        tool="vllm",
        file="vllm.log",
        label="vllm",
        definitions={"tps_e2e": "output tokens over the whole call, prefill included"},
        findings=("11 progress lines, each with exactly one pair of token counts",),
    )
    header = replace(run.header, imported=origin, server=Server(name="vllm", url="", engine="vLLM"))
    return Run(header=header, records=()), found
