"""How far accept length alone tells prompts apart. Formulas: docs/method.md, "The fit"."""

import math
from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
from msgspec import structs

from bench_client.measure.figures import Fit
from bench_client.measure.imported import imported_samples
from bench_client.measure.intervals import FEWEST_UNITS, ROUNDING, FloatArray
from bench_client.measure.samples import prompt_key
from bench_client.measure.speculation import Steps, steps_by_request
from bench_client.measure.timeline import decode_tokens, ok_records, per_second, request_figures
from bench_client.records import RequestRecord, Run

STEP_VARIES = 0.05


class _Prompt(NamedTuple):
    """One prompt's accept length, decode rate (tok/s) and verify steps, its repeats together."""

    name: str
    accept_length: float
    tps: float
    steps: float


def fit(run: Run) -> Fit | None:
    """Of a speculating arm; null with fewer than 3 prompts whose accept length is known."""
    prompts = _kept(run) or _measured(run)
    if len(prompts) < FEWEST_UNITS:
        return None
    lengths, rates, steps = np.array([prompt[1:] for prompt in prompts]).T
    step_ms = float(np.average(1e3 * lengths / rates, weights=steps))
    predicted = 1e3 * lengths / step_ms
    residuals = rates / predicted - 1
    worst = int(np.abs(residuals).argmax())
    found = Fit(
        prompts=len(prompts),
        step_ms=step_ms,
        spread=float(rates.std(ddof=1) / rates.mean()),
        r2=_r2(rates, predicted),
        residual_rms=float(np.sqrt(np.mean(residuals**2))),
        worst_prompt=prompts[worst].name,
        worst_residual=float(residuals[worst]),
    )
    return structs.replace(found, sentence=_sentence(found))


def _r2(rates: FloatArray, predicted: FloatArray) -> float | None:
    """Share of the rates' variance that is gone; below 0 if the mean does better."""
    spread = float(np.sum((rates - rates.mean()) ** 2))
    if spread <= len(rates) * (ROUNDING * rates.mean()) ** 2:
        return None
    return 1 - float(np.sum((rates - predicted) ** 2)) / spread


def _sentence(found: Fit) -> str:
    """With as many digits as a step time has in a report."""
    share = "gives the rate, the same for every prompt"
    if found.r2 is not None:
        whole = math.floor(1000 * max(found.r2, 0)) / 10  # 100.0% is all of it
        share = f"explains {whole}% of the difference between prompts (sd {found.spread:.1%})"
    said = (
        f"accept length ÷ {found.step_ms:.1f} ms a step {share}; "
        f"residual {found.residual_rms:.1%}, "
        f"largest at {found.worst_prompt} ({found.worst_residual:+.1%})"
    )
    if found.residual_rms <= STEP_VARIES:
        return said
    return f"{said}: steps do not all take the same time (context length, requests in flight)"


def _kept(run: Run) -> list[_Prompt]:
    """Values that another tool kept side by side, such as a log line's."""
    kept = imported_samples(run)
    lengths, rates = kept.get("accept_length", ()), kept.get("tps_decode", ())
    if len(lengths) != len(rates):
        return []
    pairs = enumerate(zip(lengths, rates, strict=True), 1)
    return [_Prompt(f"value {i}", length, rate, 1) for i, (length, rate) in pairs if rate > 0]


def _measured(run: Run) -> list[_Prompt]:
    key, steps_of = prompt_key(run), steps_by_request(run)
    names = {each.prompt_index: each.prompt_id for each in run.header.plan.requests}
    by_prompt: dict[Hashable, list[tuple[RequestRecord, Steps]]] = {}
    for record in ok_records(run):
        steps = steps_of(record)
        if steps and request_figures(record).tps_decode:
            by_prompt.setdefault(key(record), []).append((record, steps))
    found = []
    for answers in by_prompt.values():
        index = answers[0][0].prompt_index
        prompt = _together(names.get(index) or f"prompt {index}", answers)
        found += [prompt] if prompt else []
    return found


def _together(name: str, answers: list[tuple[RequestRecord, Steps]]) -> _Prompt | None:
    steps = sum(counted.steps for _, counted in answers)
    decoded = sum(decode_tokens(record) or 0 for record, _ in answers)
    ms = sum(request_figures(record).decode_ms or 0 for record, _ in answers)
    rate = per_second(decoded, ms)
    length = sum(counted.tokens for _, counted in answers) / steps
    return _Prompt(name, length, rate, steps) if rate else None
