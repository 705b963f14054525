"""Doubts about speculation: whether it was on, as asked, and how much of it is known.

Limits: docs/method.md, "Doubts".
"""

from collections.abc import Iterator

from bench_client.measure.figures import Doubt, Speculation, Summary
from bench_client.measure.speculation import SOURCES_DIFFER, event_steps, steps_unknown, strangers
from bench_client.measure.timeline import ok_records
from bench_client.records import Run

LOG_DIFFERS = 0.1


def speculation_doubts(run: Run, summary: Summary) -> Iterator[Doubt]:
    """What the figures of a speculating arm, or of one that should not speculate, rest on."""
    yield from _speculation(run, summary)
    yield from _sources(run, summary)
    yield from _joined(run, summary)
    if run.header.server.simulated:
        yield Doubt(
            "simulated",
            "note",
            "acceptance or the whole engine is simulated: the figures say nothing of the model",
        )


def _speculation(run: Run, summary: Summary) -> Iterator[Doubt]:
    server, found = run.header.server, summary.speculation
    counted = found is not None and _counted(found)
    if server.speculative_asked and server.facts.get("speculates") is False:
        yield Doubt(
            "spec_arm_does_not",
            "invalid",
            f"{server.name} was asked to speculate and says itself that it does not: look for the "
            "draft model in its log and launch arguments",
        )
    elif server.speculative_asked:
        yield from _missing(run, found, counted)
        yield from _otherwise(run)
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


def _otherwise(run: Run) -> Iterator[Doubt]:
    if run.header.server.unmet:
        yield Doubt(
            "not_as_asked",
            "doubtful",
            f"the server speculates otherwise than asked ({'; '.join(run.header.server.unmet)}): "
            "look for what overrides it, such as a --launch-arg",
        )


def _joined(run: Run, summary: Summary) -> Iterator[Doubt]:
    found = summary.speculation
    if found is None:
        return
    told = found.accept_length_sources
    events, counted, log = (told.get(name) for name in ("client_events", "metrics", "log"))
    leads = found.accept_length_source == "client_events"
    if leads and events and log and events > log * (1 + LOG_DIFFERS):
        yield Doubt(
            "joined_steps",
            "doubtful",
            f"the accept length of {events:.2f} is an upper bound, as the server's log says "
            f"{log:.2f}: its events hold several verify steps each",
        )
    if events and counted and steps_unknown(run):
        yield Doubt(
            "joined_steps",
            "note",
            f"the server joined verify steps in one event (accept length {events:.2f} by events, "
            f"{counted:.2f} by its own count), so that of a prompt or a language is not known",
        )


def _sources(run: Run, summary: Summary) -> Iterator[Doubt]:
    found = summary.speculation
    if found is None or not found.accept_length:
        return
    known = {name: v for name, v in found.accept_length_sources.items() if v is not None}
    if known.keys() & {"per_request", "metrics"}:
        known.pop("log", None)  # its lines come every few seconds or steps, and miss the ends
    others = [value for name, value in known.items() if name != "client_events"]
    if others and known.get("client_events", 0.0) >= min(others) and not strangers(run):
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
