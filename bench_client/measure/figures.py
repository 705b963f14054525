"""The shapes of every figure: `summary.json` is a `Summary`, a comparison a `Comparison`."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from bench_client.records import Calibration

Severity = Literal["note", "doubtful", "invalid"]
Verdict = Literal["valid", "doubtful", "invalid"]
Interval = tuple[float, float]

# What two runs are compared by, in the order of its telling.
RATIOS = (
    "tps_decode",
    "tps_e2e",
    "tps_e2e_pooled",
    "ttft_ms",
    "itl_ms",
    "chunk_gap_ms",
    "tpot_ms",
    "e2e_ms",
    "queue_ms",
    "step_ms",
    "ttft_from_schedule_ms",
    "e2e_from_schedule_ms",
    "output_tokens",
    "accept_length",
    "output_tok_per_s",
    "total_tok_per_s",
    "request_per_s",
    "j_per_output_token",
)


class Stat(Struct, frozen=True, kw_only=True):
    """One figure's distribution; `sd` has ddof 1; what `n` cannot support is null."""

    n: int
    mean: float | None = None
    sd: float | None = None
    ci95: Interval | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    min: float | None = None
    max: float | None = None


class TpsStat(Stat, frozen=True, kw_only=True):
    """`tps_e2e`: also pooled, i.e. all output tokens over all end-to-end seconds."""

    pooled: float | None = None


class RequestCounts(Struct, frozen=True, kw_only=True):
    """How many requests ended how; `rate_limited` counts the 429 that were waited for,
    and is there if there were any.
    """

    ok: int
    failed: int
    failures: dict[str, int] = {}
    rate_limited: int | UnsetType = UNSET


class Throughput(Struct, frozen=True, kw_only=True):
    """Over the whole measured window."""

    request_per_s: float | None
    input_tok_per_s: float | None
    output_tok_per_s: float | None
    total_tok_per_s: float | None


class Concurrency(Struct, frozen=True, kw_only=True):
    """Requests in flight (mean, peak), and those past their first token; null is unknown."""

    mean: float | None
    peak: int | None
    decoding_mean: float | None


class AnswerPart(Struct, frozen=True, kw_only=True, rename={"begin": "from", "end": "to"}):
    """Verify steps that began at token `from` to `to` of an answer; `to` is null in the last part.

    `answers` is how many get so far, `relative` the part's accept length over that of the same
    answers as a whole.
    """

    begin: int
    end: int | None
    answers: int
    steps: int
    accept_length: float
    relative: float
    relative_ci95: Interval | None = None


class Speculation(Struct, frozen=True, kw_only=True):
    """Accept length by source, the steps behind the headline one, and the time of a step (ms).

    `per_position` is by place in the draft, `by_answer_position` by place in the answer; the note
    says on how many answers that rests, or why it is not known.
    """

    accept_length: float | None
    accept_length_sources: dict[str, float | None]
    accept_length_source: str | None
    verify_steps: int | None
    step_ms: float | None
    per_position: tuple[float, ...] = ()
    by_language: dict[str, float] = {}
    accept_length_per_request: Stat | None = None
    by_answer_position: tuple[AnswerPart, ...] = ()
    by_answer_position_note: str | None = None


class Doubt(Struct, frozen=True):
    """A reason to trust the run less: a code, how bad, and one sentence that says what to do."""

    code: str
    severity: Severity
    message: str


class Repeats(Struct, frozen=True, kw_only=True):
    """How the repeats' mean `tps_decode` vary: their number, sd (tok/s), and sd over mean."""

    n: int
    sd: float
    relative_sd: float


class PromptRow(Struct, frozen=True, kw_only=True):
    """One request as the per-prompt table shows it."""

    id: str
    prompt_index: int
    prompt_id: str | None
    language: str | None
    repeat: int
    outcome: str
    finish_reason: str | None
    input_tokens: int | None
    output_tokens: int | None
    ttft_ms: float | None
    e2e_ms: float | None
    tps_e2e: float | None
    tps_decode: float | None
    accept_length: float | None
    verify_steps: int | None
    step_ms: float | None
    prompt_sha256: str | None = None


class Summary(Struct, frozen=True, kw_only=True):
    """`summary.json`. `rows` is not part of the file's contract but saves readers a second fold."""

    requests: RequestCounts
    duration_s: float | None
    input_tokens: int | None
    output_tokens: int | None
    throughput: Throughput
    concurrency: Concurrency
    ttft_ms: Stat
    itl_ms: Stat
    chunk_gap_ms: Stat
    tpot_ms: Stat
    e2e_ms: Stat
    queue_ms: Stat
    tps_e2e: TpsStat
    tps_decode: Stat
    step_ms: Stat
    speculation: Speculation | None
    telemetry: dict[str, Any]
    calibration: Calibration | None
    doubts: tuple[Doubt, ...]
    verdict: Verdict
    ttft_from_schedule_ms: Stat | None = None
    e2e_from_schedule_ms: Stat | None = None
    repeats: Repeats | None = None
    rows: tuple[PromptRow, ...] = ()


class Ratio(Struct, frozen=True, kw_only=True, rename={"mdd": "minimum_detectable"}):
    """Ratio of the means of one figure, other over baseline, with its 95% interval.

    Of a percentile where `figure` names one (`ttft_ms.p99`). `n` is the number of pairs, or of
    (baseline, other) values where unpaired. `mdd` is the smallest relative difference that this
    comparison would have told from none with 80% power; `recommended_repeats` would tell 2%,
    null where that is not known or repeats alone do not help.
    """

    figure: str
    ratio: float | None
    ci95: Interval | None
    paired: bool
    n: tuple[int, int]
    baseline_mean: float | None
    other_mean: float | None
    mdd: float | None = None
    recommended_repeats: int | None = None


class Fit(Struct, frozen=True, kw_only=True):
    """How well accept length / `step_ms` gives each prompt's decode rate.

    Residuals are measured over predicted rate, less 1; `spread` is the rates' sd over their mean,
    `r2` the share of it that is explained, null where all rates are equal.
    """

    prompts: int
    step_ms: float
    spread: float
    r2: float | None
    residual_rms: float
    worst_prompt: str
    worst_residual: float
    sentence: str = ""


class Explanation(Struct, frozen=True, kw_only=True):
    """Why: speedup = accept length / cost, cost = step time of other over baseline's."""

    base_step_ms: float
    step_ms: float
    cost: float
    accept_length: float
    breakeven_accept_length: float
    predicted_speedup: float
    measured_speedup: float | None
    sentence: str
    fit: Fit | None = None


class Lossless(Struct, frozen=True, kw_only=True):
    """Outputs of both arms, greedy: how many agree, and where each prompt's first difference is.

    `cut` of the equal ones are the same up to a token limit that ends one of them; `uncompared`
    had nothing to compare; `finish_reasons_differ` leaves out those that a limit cut.
    """

    compared: int
    equal: int
    first_difference: dict[str, int] = {}
    uncompared: int = 0
    cut: int = 0
    finish_reasons_differ: int = 0
    sentence: str = ""


class PairRow(Struct, frozen=True, kw_only=True):
    """One prompt in both arms."""

    prompt_index: int
    prompt_id: str | None
    language: str | None
    baseline_tps_decode: float | None
    other_tps_decode: float | None
    speedup: float | None
    accept_length: float | None


class Comparison(Struct, frozen=True, kw_only=True):
    """One run against the baseline. `refused` says why nothing may be concluded.

    `shared_prompts` is how many prompts are in both runs and in any; null if all are in both.
    `repeats` is how many both runs have; `one_sided` names the figures that only one of them has,
    and which (`the baseline`, `the other run`). `by_language` has the ratio of the decode rates of
    each language's pairs, where there are several languages.
    """

    baseline: str
    other: str
    paired: bool
    unpaired_reason: str | None
    refused: str | None
    ratios: dict[str, Ratio]
    why: Explanation | None
    lossless: Lossless | None
    rows: tuple[PairRow, ...] = ()
    warnings: tuple[str, ...] = ()
    shared_prompts: tuple[int, int] | None = None
    repeats: int = 1
    one_sided: dict[str, str] = {}
    by_language: dict[str, Ratio] = {}
