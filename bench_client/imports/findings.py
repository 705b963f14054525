"""What an import's figures say when held against each other, in sentences.

Every statement is arithmetic on what was printed; none needs a model of the server.
"""

from collections.abc import Mapping, Sequence

from bench_client.records import Load

Figures = Mapping[str, float | None]

# SGLang's default --max-running-requests for the EAGLE family (server_args.py, 0.5.3 to 0.5.23).
EAGLE_RUNNING_CAP = 48


def _known(figures: Figures, *names: str) -> tuple[float, ...] | None:
    values = tuple(value for name in names if (value := figures.get(name)) is not None)
    return values if len(values) == len(names) else None


def _per_second(figures: Figures, milliseconds: float) -> float | None:
    """Requests, each for so long, over the duration: how many there were at a time."""
    known = _known(figures, "requests.ok", "duration_s")
    if known is None or known[1] <= 0:
        return None
    return known[0] * milliseconds / 1000 / known[1]


def in_flight(figures: Figures) -> float | None:
    """Mean requests in flight: n mean E2E / duration (Little's law)."""
    e2e_ms = figures.get("e2e_ms.mean")
    return None if e2e_ms is None else _per_second(figures, e2e_ms)


def decoding_concurrency(figures: Figures) -> float | None:
    """Mean requests past their first token: n (mean E2E - mean TTFT) / duration.

    None too where the means contradict each other: no request ends before its first token.
    """
    known = _known(figures, "e2e_ms.mean", "ttft_ms.mean")
    if known is None or known[0] < known[1]:
        return None
    return _per_second(figures, known[0] - known[1])


def bench_findings(figures: Figures, load: Load, method: str | None) -> tuple[str, ...]:
    """Of one benchmark's aggregates; `method` names the speculation, None for a plain server."""
    found = [
        _decoding(figures),
        _capped(figures, load, method) if method else None,
        _agreement("concurrency", figures.get("concurrency.mean"), in_flight(figures)),
        _agreement("mean ITL, per token,", figures.get("itl_ms.mean"), _per_token_ms(figures)),
        _one_stream(figures),
    ]
    return tuple(sentence for sentence in found if sentence)


def _decoding(figures: Figures) -> str | None:
    decoding, flight = decoding_concurrency(figures), in_flight(figures)
    if decoding is None or flight is None:
        return None
    return (
        f"On average {flight:.1f} requests were in flight and {decoding:.1f} of them decoding: "
        "n (mean E2E - mean TTFT) / duration."
    )


def _capped(figures: Figures, load: Load, method: str) -> str | None:
    """All requests at once, few decoding, and most of the latency before the first token."""
    decoding = decoding_concurrency(figures)
    known = _known(figures, "requests.ok", "e2e_ms.mean", "ttft_ms.mean")
    if decoding is None or known is None:
        return None
    count, e2e_ms, ttft_ms = known
    all_at_once = load == Load(kind="open") and count > EAGLE_RUNNING_CAP
    if not all_at_once or decoding > EAGLE_RUNNING_CAP or ttft_ms < e2e_ms / 2:
        return None
    return (
        f"The {method} server was capped: all {count:.0f} requests were sent at once, but only "
        f"{decoding:.1f} decoded at a time (SGLang runs at most {EAGLE_RUNNING_CAP} with EAGLE "
        f"unless told otherwise), and {100 * ttft_ms / e2e_ms:.0f}% of the mean latency was the "
        "wait for the first token. Give both servers the same --max-running-requests and repeat."
    )


def _per_token_ms(figures: Figures) -> float | None:
    """Sum of (E2E - TTFT) / sum of (output tokens - 1)."""
    known = _known(figures, "requests.ok", "e2e_ms.mean", "ttft_ms.mean", "output_tokens")
    if known is None or known[3] <= known[0] or known[1] < known[2]:
        return None
    count, e2e_ms, ttft_ms, tokens = known
    return count * (e2e_ms - ttft_ms) / (tokens - count)


def _agreement(name: str, printed: float | None, derived: float | None) -> str | None:
    if printed is None or derived is None:
        return None
    agrees = abs(derived - printed) <= 0.005 * abs(printed) + 0.005
    verdict = "agrees" if agrees else "does not agree"
    return f"The printed {name} {printed:.2f} {verdict} with the other figures: {derived:.2f}."


def _one_stream(figures: Figures) -> str | None:
    itl_ms = figures.get("itl_ms.mean")
    if not itl_ms:
        return None
    return f"One request decoded at {1000 / itl_ms:.2f} tok/s on average: 1000 / mean ITL."


def implied_draft_tokens(lines: Sequence[tuple[float, float]]) -> str | None:
    """The draft tokens N that explain every (accept len, accept rate) of an SGLang log.

    The rate is accept len / N from 0.5.6 to 0.5.10 (0.5.5: N is steps + 1) and
    (accept len - 1) / (N - 1) later; both numbers are rounded to 0.01.
    """
    fits = {
        "accept len / N": _fits(lines, 0),
        "(accept len - 1) / (N - 1)": _fits(lines, 1),
    }
    told = [f"{formula} with N = {found}" for formula, found in fits.items() if found]
    return f"Every accept rate is {', or '.join(told)} draft tokens." if told else None


def _fits(lines: Sequence[tuple[float, float]], bonus: int) -> str | None:
    """The range of N that fits all lines; None if none does or if they set no upper bound."""
    most = 256
    found = [
        n
        for n in range(2, most + 1)
        if all(_explains(length - bonus, rate, n - bonus) for length, rate in lines)
    ]
    if not lines or not found or found[-1] == most:
        return None
    return f"{found[0]}" if len(found) == 1 else f"{found[0]} to {found[-1]}"


def _explains(accepted: float, rate: float, drafts: int) -> bool:
    rounding = 0.005 * (1 + 1 / drafts) + 1e-9
    return abs(accepted / drafts - rate) <= rounding
