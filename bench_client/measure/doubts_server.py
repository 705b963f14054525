"""Doubts about the server and what it was asked. Limits: docs/method.md, "Doubts"."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench_client.measure.energy import serving_gpus
from bench_client.measure.figures import Doubt, Summary
from bench_client.measure.speculation import grown
from bench_client.measure.timeline import ok_records
from bench_client.records import Run

CACHED_SHARE = 0.01
DECODING_SHARE = 0.5
THROTTLED_SHARE = 0.1
FAULTS = ("hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")
CROWD = 4.0  # in flight on average; below, prefill alone may explain few decoding

_CACHE_COUNTERS = (
    ("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"),
    ("sglang:cached_tokens_total", "sglang:prompt_tokens_total"),
)


def server_doubts(run: Run, summary: Summary) -> Iterator[Doubt]:
    """What the server did that was not asked, or may not be taken for more than it is."""
    yield from _cache(run)
    yield from _capped(run, summary)
    yield from _greedy(run)
    yield from _gpus(run, summary)
    if left := run.header.server.teardown:
        yield Doubt(
            "left_behind",
            "note",
            f"the stopped server left something behind, in the way of the next: {'; '.join(left)}",
        )


def _cache(run: Run) -> Iterator[Doubt]:
    share = _cached_share(run)
    if share is not None and share > CACHED_SHARE:
        yield Doubt(
            "prefix_cache_hits",
            "doubtful",
            f"{share:.1%} of the input tokens came from the prefix cache, so TTFT is better than "
            "for new prompts: flush the cache or turn it off",
        )
    measured = {request.prompt_sha256 for request in run.header.plan.requests}
    if any(request.prompt_sha256 in measured for request in run.header.plan.warmup):
        unharmed = share is not None and share <= CACHED_SHARE
        yield Doubt(
            "shared_warmup",
            "note" if unharmed else "doubtful",
            "a warm-up prompt is measured too and may come from the prefix cache"
            + (", but hardly any input token did" if unharmed else ": warm up with other prompts"),
        )


def _cached_share(run: Run) -> float | None:
    """Cached over all input tokens: by the requests' own counts, else by the server's."""
    ok = [record for record in ok_records(run) if record.input_tokens]
    if any(record.cached_tokens is not None for record in ok):  # none is told by leaving it out
        total = sum(record.input_tokens or 0 for record in ok)
        return sum(record.cached_tokens or 0 for record in ok) / total
    for hits, queries in _CACHE_COUNTERS:
        cached, asked = grown(run.header.server, hits), grown(run.header.server, queries)
        if cached is not None and asked:
            return cached / asked
    return None


def _greedy(run: Run) -> Iterator[Doubt]:
    sampling = run.header.plan.sampling
    temperature, greedy = sampling.temperature, run.header.server.facts.get("samples") is False
    overruled = sampling.ignore_eos or "generation_config" in sampling.extra_body
    if greedy and temperature > 0 and not overruled:
        yield Doubt(
            "temperature_ignored",
            "doubtful",
            f"temperature {temperature:g} was asked for, and the server decoded greedily: "
            "transformers serve samples only if the model's generation_config.json has "
            "do_sample true",
        )


def _capped(run: Run, summary: Summary) -> Iterator[Doubt]:
    held, cap = summary.concurrency, run.header.server.facts.get("max_running_requests")
    advice = (
        "waiting: raise the server's cap (SGLang --max-running-requests, 48 with EAGLE; vLLM "
        "--max-num-seqs) or send less"
    )
    if cap and held.peak and held.peak > cap:
        said = f"the server runs {cap} at once and up to {held.peak} requests were in flight"
        yield Doubt("capped_server", "doubtful", f"{said}, so TTFT is partly {advice}")
        return
    if held.mean is None or held.decoding_mean is None or held.mean < CROWD:
        return
    if held.decoding_mean < DECODING_SHARE * held.mean:
        said = f"of {held.mean:.1f} requests in flight only {held.decoding_mean:.1f} were decoding"
        yield Doubt("capped_server", "doubtful", f"{said}, so TTFT is mostly {advice}")


def _gpus(run: Run, summary: Summary) -> Iterator[Doubt]:
    """Those that serve: held back by more than their power limit, or shared."""
    found = summary.telemetry.get("gpu", {})
    gpus = {name: found[name] for name in serving_gpus(run) if name in found}
    reasons = {name: gpu.get("throttled", {}).get("reasons", {}) for name, gpu in gpus.items()}
    held = [
        f"GPU {name} in {share:.0%} of the samples ({reason.replace('_', ' ')})"
        for name, shares in reasons.items()
        for reason, share in shares.items()
        if reason in FAULTS and share > THROTTLED_SHARE
    ]
    if held:
        yield Doubt(
            "gpu_throttled",
            "doubtful",
            f"heat or hardware slowed the server down: {', '.join(held)}; see to cooling and "
            "power supply, then run again",
        )
    others = [f"{', '.join(on)} on GPU {name}" for name in gpus if (on := _others(gpus[name]))]
    if others:
        yield Doubt(
            "gpu_shared",
            "doubtful",
            f"others computed on the server's GPU ({'; '.join(others)}), so speed, memory and "
            "energy are not the server's alone: stop them and run again",
        )


def _others(gpu: Mapping[str, Any]) -> Sequence[str]:
    others: Sequence[str] = gpu.get("other_processes", ())
    return others
