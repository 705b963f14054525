"""What a report says in words: (label, text) lines shared by terminal, Markdown and HTML."""

from collections.abc import Iterable, Iterator
from typing import Any

from bench_client.measure.figures import AnswerPart, Speculation, Summary
from bench_client.measure.imported import log_lines
from bench_client.records import Load, RunHeader, Server
from bench_client.report.arms import Arm
from bench_client.report.client_error import client_error
from bench_client.report.text import (
    UNKNOWN,
    count,
    duration,
    number,
    percent,
    plural,
    span,
    tps_decimals,
)

Line = tuple[str, str]

ENOUGH_STEPS = 50  # of few, one part of several looks another by chance
TELLING = 0.1  # a smaller change along the answer is of no consequence
LANGUAGES = {"en": "English", "zh": "Chinese"}


def named_once(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines, with a label that the line above has too left empty."""
    last = ""
    for label, text in lines:
        yield "" if label == last else label, text
        last = label or last


def failures(summary: Summary) -> str | None:
    """`3 of 11 requests failed: stall 2, reset 1`, the most frequent kind first."""
    requests = summary.requests
    if not requests.failed:
        return None
    kinds = sorted(requests.failures.items(), key=lambda item: (-item[1], item[0]))
    said = f"{count(requests.failed)} of {plural(requests.ok + requests.failed, 'request')} failed"
    return f"{said}: {', '.join(f'{kind} {n}' for kind, n in kinds)}" if kinds else said


def what_ran(arm: Arm) -> Iterator[Line]:
    """The arm: engine, models, speculation, load, how many requests ended."""
    header, server = arm.run.header, arm.run.header.server
    yield "engine", _engine(server)
    yield "model", server.model or UNKNOWN
    if server.draft_model:
        yield "draft", server.draft_model
    if server.speculative:
        yield "speculation", _settings(server.speculative)
    elif server.speculative_asked:
        asked = _settings(server.speculative_asked)
        yield "speculation", f"{asked} (as asked; the server did not report it)"
    yield "load", _load(header)
    yield "requests", _ended(arm)
    if header.imported:
        source = (header.imported.tool, header.imported.version, header.imported.file)
        yield "imported", " ".join(part for part in source if part)
    if header.note:
        yield "note", header.note


def _engine(server: Server) -> str:
    name = " ".join(part for part in (server.engine, server.engine_version) if part)
    simulated = " (simulated: its figures say nothing about a GPU)" if server.simulated else ""
    unnamed = f"unknown, at {server.url}" if server.url else "unknown"
    return f"{name or unnamed}{simulated}"


def _settings(settings: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items())


def _load(header: RunHeader) -> str:
    plan = header.plan
    if header.imported:  # the rest of its plan is made up of defaults
        return _loop(plan.load)
    parts = [plan.scenario, _loop(plan.load), f"temperature {plan.sampling.temperature:g}"]
    parts += [f"{plan.repeats} repeats"] if plan.repeats > 1 else []
    parts += ["chained prompts"] if plan.chained else []
    return ", ".join([*parts, f"seed {plan.seed}"])


def _loop(load: Load) -> str:
    held = f", held to {load.rate_limit}" if load.rate_limit else ""
    if load.kind == "closed":
        told = f"closed loop, concurrency {load.concurrency}{held}"
        return "unknown" if load.concurrency is None else told
    rate = load.request_rate
    pace = "all at once (inf req/s)" if rate is None else f"{rate:g} req/s"
    cap = f", at most {load.max_concurrency} in flight" if load.max_concurrency else ""
    burst = "" if load.burstiness is None else f", burstiness {load.burstiness:g}"
    return f"open loop, {pace}{burst}{cap}{held}"


def _ended(arm: Arm) -> str:
    summary, ended = arm.summary, arm.run.header.ended
    stop = f", {ended}" if ended in ("interrupted", "aborted") else ""
    took = f" in {duration(summary.duration_s)}" if summary.duration_s is not None else ""
    tokens = f"{count(summary.input_tokens)} tokens in, {count(summary.output_tokens)} out"
    refused = summary.requests.rate_limited
    waited = f"; {plural(refused, 'answer')} of 429 waited for" if refused else ""
    lines = log_lines(arm.run)
    ended_as = f"{summary.requests.ok} ok, {summary.requests.failed} failed"
    ended_as = ended_as if lines is None else plural(lines, "log line")
    return f"{ended_as}{took}{stop}; {tokens}{waited}"


def notes(arm: Arm) -> Iterator[Line]:
    """What the totals table cannot hold: throughput, concurrency, accept length, client."""
    summary, client = arm.summary, arm.run.header.client
    yield "throughput", _throughput(summary)
    held = summary.concurrency
    if (held.mean, held.peak, held.decoding_mean) != (None, None, None):
        mean, decoding = number(held.mean, 2), number(held.decoding_mean, 2)
        yield "concurrency", f"mean {mean}, peak {count(held.peak)}, decoding {decoding}"
    if summary.repeats:
        spread = f"means of tps_decode differ by {percent(summary.repeats.relative_sd)} (sd)"
        yield "repeats", f"{summary.repeats.n}, {spread}"
    if summary.speculation:
        yield from _speculation(summary.speculation)
    if arm.run.header.imported:
        yield from arm.run.header.imported.definitions.items()
        yield from (("found", finding) for finding in arm.run.header.imported.findings)
        return
    stamps = f"{client.stamp_source or UNKNOWN} stamps"
    yield "client", f"{client.transport}, {stamps}, {plural(client.workers, 'worker')}"
    yield "client error", client_error(summary.calibration, arm.run.header)


def _throughput(summary: Summary) -> str:
    rates = summary.throughput
    tokens = (rates.input_tok_per_s, rates.output_tok_per_s, rates.total_tok_per_s)
    said = [number(rate, tps_decimals(rate or 0)) for rate in tokens]
    requests = number(rates.request_per_s, 3 if (rates.request_per_s or 0) < 1 else 2)
    return f"{requests} req/s; tok/s {said[0]} in, {said[1]} out, {said[2]} total"


def _speculation(found: Speculation) -> Iterator[Line]:
    yield "accept length", _sources(found)
    if found.by_language:
        by = (f"{language(code)} {number(v, 2)}" for code, v in found.by_language.items())
        yield "by language", ", ".join(by)
    if found.per_position:
        yield "by draft depth", "  ".join(f"{share:.0%}" for share in found.per_position)
    yield from _along_answer(found.by_answer_position)


def _along_answer(parts: Iterable[AnswerPart]) -> Iterator[Line]:
    """Only where accept length changes along the answer for sure; the files have the table."""
    if any(_changes(part) for part in parts):
        said = (f"{number(p.accept_length, 2)} at {span(p.begin, p.end)}" for p in parts)
        yield "along answer", f"{', '.join(said)} tokens"


def _changes(part: AnswerPart) -> bool:
    low, high = part.relative_ci95 or (1, 1)
    apart = abs(part.relative - 1) > TELLING and not low <= 1 <= high
    return apart and part.steps >= ENOUGH_STEPS


def along_answer_note(summary: Summary) -> str:
    """Why accept length along the answer is not known, or of which answers it is; else empty."""
    found = summary.speculation
    if found is None or found.by_answer_position_note is None:
        return ""
    unknown = "" if found.by_answer_position else "not known: "
    return f"Accept length along the answer is {unknown}{found.by_answer_position_note}."


def _sources(found: Speculation) -> str:
    steps = "" if found.verify_steps is None else f", {plural(found.verify_steps, 'verify step')}"
    head = found.accept_length_source
    said = []
    for source, value in found.accept_length_sources.items():
        mark = f" (headline{steps})" if source == head else ""
        # Joined events hide steps, so what the client sees is an upper bound.
        bound = "≤ " if source == "client_events" and value is not None else ""
        said.append(f"{source.replace('_', ' ')} {bound}{number(value, 2)}{mark}")
    return ", ".join(said) or f"{number(found.accept_length, 2)}{steps}"


def language(code: str) -> str:
    """Its name; the code itself where we have none."""
    return LANGUAGES.get(code, code)


def decisive(arm: Arm) -> str:
    """What its verdict rests on, in full."""
    verdict = arm.summary.verdict
    doubts = (doubt for doubt in arm.summary.doubts if doubt.severity == verdict)
    return "; ".join(f"{doubt.message} ({doubt.code})" for doubt in doubts)


def standing(arm: Arm) -> str:
    """Why an arm's figures may not be trusted, for where its own report is not; empty if they may.

    What makes it invalid in full, what makes it doubtful by name.
    """
    if arm.summary.verdict == "invalid":
        return f"invalid: {decisive(arm)}"
    doubtful = [doubt.code for doubt in arm.summary.doubts if doubt.severity == "doubtful"]
    return f"doubtful: {', '.join(doubtful)}" if doubtful else ""
