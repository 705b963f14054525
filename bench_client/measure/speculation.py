"""Accept length by source, and the time of a verify step.

Formulas: docs/method.md, "Accept length" and "Step time and break-even".
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from bench_client.measure.figures import Speculation
from bench_client.measure.timeline import decode_tokens, ok_records, request_figures
from bench_client.records import RequestRecord, Run, Server

# Best scoped first: exactly these requests, exactly this window, a bound, whole log lines.
SOURCES = ("per_request", "metrics", "client_events", "log")
SOURCES_DIFFER = 0.03
STRANGERS = 0.1

_VLLM_DRAFTS = "vllm:spec_decode_num_drafts_total"
_VLLM_ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
_VLLM_TOKENS = "vllm:generation_tokens_total"
_VLLM_REQUESTS = "vllm:request_success_total"
_VLLM_POSITION = 'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{}"}}'
_SGLANG_TOKENS = "sglang:generation_tokens_total"
_SGLANG_REQUESTS = "sglang:num_requests_total"
_SGLANG_VERIFIED = "sglang:spec_verify_calls_total"

# Settings that bound one step's tokens, under the engines' names, drafts without the bonus token.
_DEPTHS = ("num_speculative_tokens", "speculative_num_steps", "num_steps", "spec_steps")
_DRAFTS = ("speculative_num_draft_tokens", "num_draft_tokens", "spec_draft_tokens")


class Steps(NamedTuple):
    """Tokens and the verify steps that they came out of."""

    tokens: float
    steps: float

    @property
    def accept_length(self) -> float:
        """Tokens a step."""
        return self.tokens / self.steps


StepsOf = Callable[[RequestRecord], Steps | None]


def speculation(run: Run, log_accept_length: float | None = None) -> Speculation | None:
    """What speculation did in this run; null for an arm that does not speculate.

    Joined events alone are no evidence of speculation: a plain server's detokenizer joins them too.
    """
    server, ok = run.header.server, ok_records(run)
    found = {
        "per_request": _total(map(reported_steps, ok)),
        "metrics": counted_steps(server),
        "client_events": _total(event_steps(record, server) for record in ok),
    }
    lengths = {name: steps.accept_length if steps else None for name, steps in found.items()}
    lengths["log"] = log_accept_length
    if not _speculates(server, lengths):
        return None
    source = next((name for name in SOURCES if lengths[name] is not None), None)
    length = lengths[source] if source else None
    steps = found.get(source) if source else None
    return Speculation(
        accept_length=length,
        accept_length_sources={name: lengths[name] for name in SOURCES},
        accept_length_source=source,
        verify_steps=round(steps.steps) if steps else None,
        step_ms=_step_ms(run, source, length),
        per_position=_per_position(ok, server),
        by_language=_by_language(run),
    )


def _total(parts: Iterable[Steps | None]) -> Steps | None:
    known = [part for part in parts if part]
    steps = sum(part.steps for part in known)
    return Steps(sum(part.tokens for part in known), steps) if steps else None


def reported_steps(record: RequestRecord) -> Steps | None:
    """The server's own count for one request."""
    accept = record.accept
    if accept is None or not accept.verify_steps:
        return None
    if accept.tokens is not None:
        return Steps(accept.tokens, accept.verify_steps)
    if record.output_tokens is None:
        return None
    return Steps(max(record.output_tokens - 1, 0), accept.verify_steps)


def event_steps(record: RequestRecord, server: Server) -> Steps | None:
    """What the client saw: each event with tokens after the first one is a step, at least.

    An event of more tokens than one step can yield counts as the fewest steps that yield them.
    """
    later = record.events.tokens[1:]
    counts = [count for count in later if count]
    if not counts or None in later:
        return None
    most = most_per_step(record, server)
    return Steps(sum(counts), sum(-(-count // most) if most else 1 for count in counts))


def most_per_step(record: RequestRecord, server: Server) -> int | None:
    """The most tokens that one step yields: draft depth + 1; null where it is not known."""
    if record.accept and record.accept.histogram:
        return len(record.accept.histogram)
    settings = server.speculative or server.speculative_asked or {}
    for name in (*_DEPTHS, *_DRAFTS):
        drafts = settings.get(name)
        if isinstance(drafts, int) and drafts > 0:
            return drafts + 1
    return None


def counted_steps(server: Server) -> Steps | None:
    """By the server's counters over the window; null where it has none or took no step.

    vLLM's accepted tokens include those of last blocks that max_tokens cut; the tokens generated,
    less the one that each prefill yields, do not. EAGLE's first token comes out of a step too.
    """
    drafts, accepted = grown(server, _VLLM_DRAFTS), grown(server, _VLLM_ACCEPTED)
    tokens, requests = grown(server, _VLLM_TOKENS), grown(server, _VLLM_REQUESTS)
    if drafts and tokens and requests and server.engine != "eagle":
        return Steps(tokens - requests, drafts)
    if drafts and accepted is not None:
        return Steps(drafts + accepted, drafts)
    tokens, verified = grown(server, _SGLANG_TOKENS), grown(server, _SGLANG_VERIFIED)
    if tokens and verified:
        return Steps(tokens - (grown(server, _SGLANG_REQUESTS) or 0.0), verified)
    return None


def grown(server: Server, name: str) -> float | None:
    """A counter's growth over the window; one that is missing before it starts at 0."""
    before, after = server.counters_before, server.counters_after
    if before is None or after is None or name not in after:
        return None
    growth = after[name] - before.get(name, 0.0)
    return growth if growth >= 0 else None


def _speculates(server: Server, lengths: dict[str, float | None]) -> bool:
    if server.speculative or any(lengths[name] for name in ("per_request", "metrics", "log")):
        return True
    return bool(server.speculative_asked) and (lengths["client_events"] or 0) > 1


def _step_ms(run: Run, source: str | None, length: float | None) -> float | None:
    """Decode time over the steps it took, after each answer's first token."""
    server, ok = run.header.server, ok_records(run)
    if source in ("per_request", "client_events"):
        counts = [
            reported_steps(record) if source == "per_request" else event_steps(record, server)
            for record in ok
        ]
        pairs = [(record, steps) for record, steps in zip(ok, counts, strict=True) if steps]
        steps = sum(_later_steps(record, part) for record, part in pairs)
        return _decode_ms(record for record, _ in pairs) / steps if steps else None
    timed = [record for record in ok if decode_tokens(record)]
    if not timed:
        return None
    counted = counted_steps(server) if source == "metrics" else None
    if counted and len(timed) == len(run.records):
        return _decode_ms(timed) / counted.steps
    # Other requests' steps are in the count, or there is none: by this run's tokens instead.
    tokens = sum(decode_tokens(record) or 0 for record in timed)
    return _decode_ms(timed) * length / tokens if length and tokens else None


def _later_steps(record: RequestRecord, steps: Steps) -> float:
    """Those after the first event, which holds one itself if more tokens than later came of steps.

    EAGLE's does, and one in which an engine joined the prefill's token with a step.
    """
    return steps.steps - (steps.tokens > (decode_tokens(record) or 0))


def _decode_ms(records: Iterable[RequestRecord]) -> float:
    return sum(request_figures(record).decode_ms or 0.0 for record in records)


def plain_step_ms(run: Run) -> float | None:
    """Decode time a token: the step of an arm that does not speculate."""
    timed = [record for record in ok_records(run) if decode_tokens(record)]
    tokens = sum(decode_tokens(record) or 0 for record in timed)
    return _decode_ms(timed) / tokens if tokens else None


def steps_by_request(run: Run) -> StepsOf:
    """How a request's own steps are known: as the server says, else by events, else not at all.

    Joined events hide steps, so events count where their accept length is no longer than the
    server's own (of the answers that it comes with, else of its window), up to one step an answer
    and 3%, or where nothing counts.
    """
    server, ok = run.header.server, ok_records(run)
    told = [record for record in ok if reported_steps(record)]
    counted = None if strangers(run) else counted_steps(server)
    counted = _total(map(reported_steps, told)) or counted
    seen = _total(event_steps(record, server) for record in told or ok)
    slack = SOURCES_DIFFER + len(told or ok) / seen.steps if seen else 0.0
    joined = counted and seen and seen.accept_length > counted.accept_length * (1 + slack)
    return lambda record: (
        reported_steps(record) or (None if joined else event_steps(record, server))
    )


def strangers(run: Run) -> bool:
    """Whether the server's counters hold far more tokens than this run's answers: others' too."""
    counted, own = (
        counted_steps(run.header.server),
        sum(each.output_tokens or 0 for each in run.records),
    )
    return counted is not None and own > 0 and counted.tokens > own * (1 + STRANGERS)


def steps_unknown(run: Run) -> bool:
    """Whether the arm's steps are counted and its requests' own are not."""
    steps_of = steps_by_request(run)
    return counted_steps(run.header.server) is not None and not any(map(steps_of, ok_records(run)))


def request_step_ms(record: RequestRecord, steps: Steps | None, speculates: bool) -> float | None:
    """Mean step time of one request; of an arm that does not speculate, of a token."""
    if speculates and steps is None:
        return None
    count = _later_steps(record, steps) if steps else decode_tokens(record)
    decode_ms = request_figures(record).decode_ms
    return decode_ms / count if count and decode_ms is not None else None


def _per_position(ok: Sequence[RequestRecord], server: Server) -> tuple[float, ...]:
    """Share of the steps that accepted the draft at each position."""
    histograms = [record.accept.histogram for record in ok if record.accept]
    totals = [sum(column) for column in zip_longest(*histograms, fillvalue=0)]
    if sum(totals):
        return tuple(sum(totals[j:]) / sum(totals) for j in range(1, len(totals)))
    drafts, shares = grown(server, _VLLM_DRAFTS), list[float]()
    while drafts:
        accepted = grown(server, _VLLM_POSITION.format(len(shares)))
        if accepted is None:
            break
        shares.append(accepted / drafts)
    return tuple(shares)


def languages(run: Run) -> dict[int, str]:
    """Language by prompt index, where the plan says."""
    requests = run.header.plan.requests
    return {each.prompt_index: each.language for each in requests if each.language}


def _by_language(run: Run) -> dict[str, float]:
    spoken, steps_of = languages(run), steps_by_request(run)
    parts: dict[str, list[Steps | None]] = {}
    for record in ok_records(run):
        language = spoken.get(record.prompt_index)
        if language:
            parts.setdefault(language, []).append(steps_of(record))
    totals = {language: _total(parts[language]) for language in sorted(parts)}
    return {language: total.accept_length for language, total in totals.items() if total}
