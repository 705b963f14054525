"""An engine's own log lines as a run: values by line, no requests."""

from collections.abc import Sequence
from statistics import fmean

from bench_client.imports.as_run import Source, Told, run_of
from bench_client.imports.findings import implied_draft_tokens
from bench_client.imports.sglang_log import DecodeLine, one_rank_each, sglang_accept_length
from bench_client.imports.vllm_log import EngineLine, SpecLine, vllm_accept_length
from bench_client.records import Load, Run

SGLANG_TOOL = "sglang server log"
VLLM_TOOL = "vllm server log"

SGLANG_DEFINITIONS = {
    "tps_decode": (
        "decoding alone: one request's share of the tokens of 40 iterations over their time; "
        "a line after a prefill is left out"
    )
}
VLLM_DEFINITIONS = {
    "log_generation_tok_per_s.max": "the fullest log interval (10 s); idle time in it lowers it"
}


def decode_run(logged: Sequence[DecodeLine], source: Source) -> Run:
    """SGLang `Decode batch` lines of one server. Requests of its DP ranks decode side by side."""
    lines = one_rank_each(logged)
    names = dict.fromkeys(line.dp for line in lines)
    ranks = [[line.running for line in lines if line.dp == name] for name in names]
    constant = all(len(set(running)) == 1 for running in ranks)
    steady = [line for line in lines if not line.after_prefill and line.gen_tok_per_s > 0]
    lengths = tuple(line.accept_length for line in lines if line.accept_length is not None)
    samples = {
        "tps_decode": tuple(line.tps_decode for line in steady),
        "step_ms": tuple(line.step_ms for line in steady if line.step_ms is not None),
        "accept_length": lengths,
    }
    figures = {
        "log_lines": float(len(lines)),
        "concurrency.decoding_mean": sum(fmean(running) for running in ranks),
        "speculation.accept_length": sglang_accept_length(lines),
    }
    told = Told(
        tool=SGLANG_TOOL,
        engine="sglang",
        load=Load(
            kind="closed", concurrency=sum(running[0] for running in ranks) if constant else None
        ),
        definitions=SGLANG_DEFINITIONS,
        samples={name: values for name, values in samples.items() if values},
    )
    findings = (*_rank_findings(len(ranks), len(logged) - len(lines)), *_decode_findings(lines))
    return run_of(told, source, _known(figures), findings=findings)


def _known(figures: dict[str, float | None]) -> dict[str, float | None]:
    return {name: value for name, value in figures.items() if value is not None}


def _rank_findings(ranks: int, repeated: int) -> tuple[str, ...]:
    found = []
    if ranks > 1:
        found.append(
            f"The log is of {ranks} data-parallel ranks: a line's throughput is that of one of "
            "them, concurrency the sum of their means."
        )
    if repeated:
        found.append(
            f"{repeated} lines of further TP or PP ranks tell of the same batches again: they are "
            "left out."
        )
    return tuple(found)


def _decode_findings(lines: Sequence[DecodeLine]) -> tuple[str, ...]:
    found: list[str] = []
    after = sum(line.after_prefill for line in lines)
    if after:
        found.append(
            f"{after} of {len(lines)} lines come right after a prefill: their throughput spans it "
            "and the idle time before it, so it is left out."
        )
    idle = sum(line.gen_tok_per_s == 0 and not line.after_prefill for line in lines)
    if idle:
        found.append(
            f"{idle} of {len(lines)} lines give a throughput of 0.00, which is no decode speed: "
            "they are left out of it."
        )
    eager = sum(line.graph is False for line in lines)
    if eager:
        found.append(
            f"{eager} of {len(lines)} lines ran without a CUDA graph: "
            "raise the largest batch size that is captured."
        )
    rates = [
        (line.accept_length, line.accept_rate)
        for line in lines
        if line.accept_length is not None and line.accept_rate is not None
    ]
    implied = implied_draft_tokens(rates)
    return (*found, implied) if implied else tuple(found)


def vllm_run(engine: Sequence[EngineLine], spec: Sequence[SpecLine], source: Source) -> Run:
    """VLLM's throughput and speculation lines of one server."""
    generation = [line.generation_tok_per_s for line in engine]
    means = tuple(x.mean_accept_length for x in spec if x.mean_accept_length is not None)
    figures = {
        "log_lines": float(len(engine) + len(spec)),
        "log_generation_tok_per_s.max": max(generation, default=None),
        "speculation.accept_length": vllm_accept_length(spec),
    }
    told = Told(
        tool=VLLM_TOOL,
        engine="vllm",
        definitions=VLLM_DEFINITIONS,
        samples={"accept_length": means} if means else {},
    )
    return run_of(told, source, _known(figures | _counts(spec)))


def _counts(spec: Sequence[SpecLine]) -> dict[str, float | None]:
    """Counts over all lines (V0's last line has them all), where every line's steps are known."""
    lines = spec[-1:] if spec and spec[-1].cumulative else spec
    steps = [line.verify_steps for line in lines]
    known = [value for value in steps if value is not None]
    total = sum(known)
    if len(known) != len(lines) or not total:
        return {}
    figures: dict[str, float | None] = {
        "speculation.verify_steps": float(round(total)),
        "speculation.draft_tokens": float(sum(line.drafted for line in lines)),
        "speculation.accepted_tokens": float(sum(line.accepted for line in lines)),
    }
    positions = min((len(line.per_position) for line in lines), default=0)
    for i in range(positions):
        rate = sum(s * x.per_position[i] for s, x in zip(known, lines, strict=True)) / total
        figures[f"speculation.per_position_pct.{i}"] = 100 * rate
    return figures
