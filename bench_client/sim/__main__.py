"""`python -m bench_client.sim`: the simulated server's command line."""

import argparse
import math
import sys
from pathlib import Path

from .faults import Fault
from .faults import parse as parse_fault
from .sequence import EngineSettings
from .serve import serve
from .server import ServerSettings

# SGLang's own default with the EAGLE family, and an ample one without.
_CAP_SPECULATIVE, _CAP_PLAIN = 48, 256


def _fault(text: str) -> Fault:
    try:
        return parse_fault(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _number(text: str, low: float, high: float = math.inf) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not low <= number <= high:
        upper = "" if high == math.inf else f" to {high:g}"
        raise argparse.ArgumentTypeError(f"{text!r}: write a number from {low:g}{upper}")
    return number


def _share(text: str) -> float:
    return _number(text, 0, 1)


def _amount(text: str) -> float:
    return _number(text, 0.001)


def _duration(text: str) -> float:
    return _number(text, 0)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 100_000:
        raise argparse.ArgumentTypeError(f"{text!r}: write a whole number from 1")
    return int(text)


def _fixed(text: str) -> tuple[float, float]:
    ttft, colon, itl = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r}: write TTFT:ITL in ms, such as 50:20")
    return _amount(ttft), _amount(itl)


def _tokens(text: str) -> tuple[int, int]:
    low, colon, high = text.partition(":")
    numbers = [int(part) for part in (low, high if colon else low) if part.isdecimal()]
    if len(numbers) != 2 or not 0 < numbers[0] <= numbers[1]:
        raise argparse.ArgumentTypeError(f"{text!r}: write LOW:HIGH, or one number of tokens")
    return numbers[0], numbers[1]


# fmt: off
def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench_client.sim",
        description="A simulated SGLang or vLLM server. Its defaults are Qwen3-8B on an L40.",
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="default: %(default)s")
    add("--port", type=int, default=30_000, help="default: %(default)s")
    add("--model", default="sim", help="served model name (default: %(default)s)")
    add("--draft-model", help="the draft model's name; turns speculation on")
    add("--flavour", choices=("vllm", "sglang"), default="vllm",
        help="whose events to send (default: %(default)s)")
    add("--api-key", help="answer 401 without it")
    add("--startup-delay-s", type=_duration, default=0.0, metavar="S",
        help="load for S seconds before the port answers")
    _add_engine_options(parser.add_argument_group("engine"))
    add = parser.add_argument_group("judging a client").add_argument
    add("--fixed", type=_fixed, metavar="TTFT_MS:ITL_MS",
        help="no engine: each stream's first token TTFT_MS after receipt, then one every ITL_MS")
    add("--send-log", type=Path, metavar="FILE", help="write what was sent, and when, per request")
    add("--fault", type=_fault, metavar="KIND[:ARG]", help="what goes wrong in every answer")
    return parser


def _add_engine_options(group: argparse._ArgumentGroup) -> None:
    d = EngineSettings()
    low, high = d.answer_tokens
    add = group.add_argument
    add("--step-ms", type=_amount, default=d.step_ms, metavar="MS",
        help="one decode step (default: %(default)s)")
    add("--verify-ms", type=_amount, default=d.verify_ms, metavar="MS",
        help="one draft-and-verify step (default: %(default)s)")
    add("--prefill-tok-s", type=_amount, default=d.prefill_tok_s, metavar="TOK/S",
        help="default: %(default)s")
    add("--spec-steps", type=_count, default=d.spec_steps, metavar="K",
        help="draft tokens in a chain (default: %(default)s)")
    add("--accept-en", type=_share, default=d.accept_en, metavar="P",
        help="probability that a draft is accepted in English (default: %(default)s)")
    add("--accept-zh", type=_share, default=d.accept_zh, metavar="P",
        help="the same in Chinese (default: %(default)s)")
    add("--jitter", type=_duration, default=d.jitter, metavar="SHARE",
        help="standard deviation of a step's relative duration (default: %(default)s)")
    add("--seed", type=int, default=d.seed, help="default: %(default)s")
    add("--max-running-requests", type=_count, metavar="N",
        help=f"the rest waits (default: {_CAP_SPECULATIVE} with a draft model, else {_CAP_PLAIN})")
    add("--answer-tokens", type=_tokens, default=d.answer_tokens, metavar="LOW:HIGH",
        help=f"where an answer ends unless ignore_eos is set (default: {low}:{high})")
    add("--prefix-cache", action="store_true", help="skip the prefill of known prefixes")
# fmt: on


def _settings(argv: list[str] | None) -> ServerSettings:
    parser = _parser()
    options = parser.parse_args(argv)
    if options.fixed and options.draft_model:
        parser.error("--fixed has no engine to speculate: leave out --draft-model")
    cap = _CAP_SPECULATIVE if options.draft_model else _CAP_PLAIN
    engine = EngineSettings(
        step_ms=options.step_ms,
        verify_ms=options.verify_ms,
        prefill_tok_s=options.prefill_tok_s,
        speculative=options.draft_model is not None,
        spec_steps=options.spec_steps,
        accept_en=options.accept_en,
        accept_zh=options.accept_zh,
        jitter=options.jitter,
        seed=options.seed,
        max_running_requests=options.max_running_requests or cap,
        answer_tokens=options.answer_tokens,
        prefix_cache=options.prefix_cache,
    )
    return ServerSettings(
        engine=engine,
        host=options.host,
        port=options.port,
        model=options.model,
        draft_model=options.draft_model,
        flavour=options.flavour,
        send_log=options.send_log,
        fault=options.fault,
        startup_delay_s=options.startup_delay_s,
        fixed_ms=options.fixed,
        api_key=options.api_key,
    )


def main(argv: list[str] | None = None) -> int:
    """Run the server; 0 after SIGTERM or Ctrl-C, 1 where it cannot listen, 2 on wrong usage."""
    settings = _settings(argv)
    try:
        serve(settings)
    except OSError as error:
        what = f"listen on {settings.host}:{settings.port}", "choose another --port"
        if error.filename:
            what = f"write {error.filename}", "choose another --send-log"
        sys.stderr.write(f"cannot {what[0]}: {error.strerror}; {what[1]}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
