"""Doubts about the server and what it was asked. Limits: docs/method.md, "Doubts"."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench_client.measure.energy import serving_gpus
from bench_client.measure.figures import Doubt, Speculation, Summary
from bench_client.measure.speculation import event_steps, grown
from bench_client.measure.timeline import ok_records
from bench_client.records import Run

CACHED_SHARE = 0.01
SOURCES_DIFFER = 0.03
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
    yield from _speculation(run, summary)
    yield from _sources(run, summary)
    yield from _cache(run)
    yield from _capped(summary)
    yield from _greedy(run)
    yield from _gpus(run, summary)
    if run.header.server.simulated:
        yield Doubt(
            "simulated",
            "note",
            "acceptance or the whole engine is simulated: the figures say nothing of the model",
        )


def _speculation(run: Run, summary: Summary) -> Iterator[Doubt]:
    server, found = run.header.server, summary.speculation
    counted = found is not None and _counted(found)
    if server.speculative_asked:
        yield from _missing(run, found, counted)
    elif server.argv and (server.speculative or counted):
        yield Doubt(
            "plain_arm_speculates",
            "invalid",
            f"{server.name} was launched without speculation but speculates: look for it in the "
            "launch arguments and the model's own defaults",
        )


def _counted(found: Speculation) -> bool:
    """Whether the server itself counted verify steps."""
    sources = found.accept_length_sources
    return any(sources.get(name) is not None for name in ("per_request", "metrics", "log"))


def _missing(run: Run, found: Speculation | None, counted: bool) -> Iterator[Doubt]:
    server, ok = run.header.server, ok_records(run)
    seen = [steps for steps in (event_steps(record, server) for record in ok) if steps]
    joined = any(steps.tokens > steps.steps for steps in seen)
    if counted or joined or not ok:
        return
    if seen:
        yield Doubt(
            "spec_arm_does_not",
            "invalid",
            f"{server.name} was asked to speculate but does not: every event has one token and the "
            "server counts no verify step; look for the draft model in its log",
        )
    elif found is None or not server.speculative:
        yield Doubt(
            "speculation_unproven",
            "doubtful",
            f"{server.name} was asked to speculate and nothing shows that it did: it counts no "
            "verify step and its answers are too short or uncounted; use longer answers",
        )


def _sources(run: Run, summary: Summary) -> Iterator[Doubt]:
    found = summary.speculation
    if found is None or not found.accept_length:
        return
    known = {name: v for name, v in found.accept_length_sources.items() if v is not None}
    if known.keys() & {"per_request", "metrics"}:
        known.pop("log", None)  # its lines come every few seconds or steps, and miss the ends
    others = [value for name, value in known.items() if name != "client_events"]
    if others and known.get("client_events", 0.0) >= min(others):
        known.pop("client_events", None)  # joined events hide steps, never invent them
    if not known:
        return
    low, high = min(known.values()), max(known.values())
    # Sources differ by one step a request: in the prefill's token and in a last block cut short.
    steps = (summary.output_tokens or 0) / found.accept_length
    slack = summary.requests.ok / steps if steps and run.records else 0.0
    if high > low * (1 + SOURCES_DIFFER + slack):
        said = ", ".join(f"{name} {value:.2f}" for name, value in known.items())
        yield Doubt(
            "accept_sources_disagree",
            "doubtful",
            f"the sources of the accept length disagree ({said}): look for other users of the "
            "server, or counters that cover more than this run",
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


def _capped(summary: Summary) -> Iterator[Doubt]:
    held = summary.concurrency
    if held.mean is None or held.decoding_mean is None or held.mean < CROWD:
        return
    if held.decoding_mean < DECODING_SHARE * held.mean:
        yield Doubt(
            "capped_server",
            "doubtful",
            f"of {held.mean:.1f} requests in flight only {held.decoding_mean:.1f} were decoding, "
            "so TTFT is mostly waiting: raise the server's cap (SGLang --max-running-requests, 48 "
            "with EAGLE; vLLM --max-num-seqs) or send less",
        )


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
