"""Why speculation pays or does not. Formulas: docs/method.md, "Step time and break-even"."""

from bench_client.measure.figures import Explanation, Fit, Speculation

MEASURED_APART = 0.05


def explain(
    base_step_ms: float | None,
    speculation: Speculation | None,
    prompt_mean: float | None,
    measured: float | None,
    fit: Fit | None = None,
) -> Explanation | None:
    """Of a speculating arm against a plain one; null where a step or an accept length is unknown.

    `measured` is the ratio of the arms' mean decode rates, so the accept length beside it is the
    mean over prompts (`prompt_mean`); the headline, all tokens over all steps, weighs a prompt by
    its steps, and stands in where prompts have none of their own.
    """
    if not base_step_ms or speculation is None:
        return None
    step_ms, length = speculation.step_ms, prompt_mean or speculation.accept_length
    if not step_ms or not length:
        return None
    cost = step_ms / base_step_ms
    return Explanation(
        base_step_ms=base_step_ms,
        step_ms=step_ms,
        cost=cost,
        accept_length=length,
        breakeven_accept_length=cost,
        predicted_speedup=length / cost,
        measured_speedup=measured,
        sentence=_sentence(cost, length, measured),
        fit=fit,
    )


def _sentence(cost: float, length: float, measured: float | None) -> str:
    speedup = length / cost
    begin = f"each verify step costs {cost:.2f} plain steps and yields {length:.2f} tokens: "
    if cost <= 1:
        end = f"{speedup:.2f} times as fast, and any accept length pays"
    elif speedup >= 1:
        end = f"{speedup:.2f} times faster; below {cost:.2f} tokens a step it would be slower"
    else:
        end = f"{speedup:.2f} times as fast; it would take {cost:.2f} tokens a step to pay"
    if measured is not None and abs(measured / speedup - 1) > MEASURED_APART:
        end += f" (measured: {measured:.2f} times)"
    return begin + end
