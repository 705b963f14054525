"""A scenario and what was asked on the command line, to a plan."""

import hashlib
from itertools import chain

import msgspec
from msgspec import Struct

from bench_client.plan.arrivals import arrivals_ns
from bench_client.plan.scenario import PREVIOUS_ANSWER, Prompt, Scenario, ScenarioError
from bench_client.records import Api, Load, Message, Plan, PlannedRequest, Sampling

# Long enough to reach decoding on every engine, short enough not to be waited for.
WARMUP_TOKENS = 32


class PlanOptions(Struct, frozen=True, kw_only=True):
    """What the command line decides; null takes the scenario's own."""

    load: Load
    repeats: int = 1
    warmup: int = 2
    seed: int = 0
    temperature: float | None = None
    max_tokens: int | None = None
    ignore_eos: bool = False
    extra_body: dict[str, object] = {}
    api: Api = "chat"


def build_plan(scenario: Scenario, options: PlanOptions) -> Plan:
    """Everything that can be decided before the clock starts.

    `max_tokens` is the limit of prompts that have none, and a cap on those that have: a short look
    keeps each prompt's own shorter limit. Without it the scenario's goes for the former.

    Raises:
        ScenarioError: a chained scenario with more than one request in flight.
    """
    if scenario.chained and (options.load.kind, options.load.concurrency) != ("closed", 1):
        raise ScenarioError(
            f"scenario {scenario.name!r} is chained, each prompt needs the answer before it: "
            "run it with --concurrency 1"
        )
    requests = [
        _request(scenario, options, index, repeat)
        for repeat in range(options.repeats)
        for index in range(len(scenario.prompts))
    ]
    return Plan(
        scenario=scenario.name,
        seed=options.seed,
        repeats=options.repeats,
        load=options.load,
        sampling=_sampling(scenario, options),
        requests=tuple(_schedule(requests, options)),
        warmup=tuple(_warmup(scenario, options)),
        api=options.api,
        chained=scenario.chained,
    )


def _sampling(scenario: Scenario, options: PlanOptions) -> Sampling:
    chosen = [t for t in (options.temperature, scenario.temperature) if t is not None]
    return Sampling(
        temperature=chosen[0] if chosen else Sampling().temperature,
        ignore_eos=options.ignore_eos,
        extra_body=options.extra_body,
    )


def _request(scenario: Scenario, options: PlanOptions, index: int, repeat: int) -> PlannedRequest:
    prompt = scenario.prompts[index]
    text = "".join(message.content for message in prompt.messages)
    return PlannedRequest(
        id=f"p{index:03d}-r{repeat}",
        prompt_index=index,
        prompt_id=prompt.id,
        prompt_sha256=prompt_sha256(prompt.messages),
        repeat=repeat,
        max_tokens=_max_tokens(prompt.max_tokens, options.max_tokens, scenario.max_tokens),
        seed=_derived_seed(options.seed, index, repeat),
        language=prompt.language or language_of(text),
        chained=scenario.chained and index > 0,
        messages=prompt.messages,
    )


def _max_tokens(own: int | None, asked: int | None, default: int) -> int:
    limits = [limit for limit in (own, asked) if limit is not None]
    return min(limits, default=default)


def _schedule(requests: list[PlannedRequest], options: PlanOptions) -> list[PlannedRequest]:
    load = options.load
    if load.request_rate is None:
        return requests
    count, burstiness = len(requests) // options.repeats, load.burstiness or 1.0
    seeds = range(options.seed, options.seed + options.repeats)
    each = (arrivals_ns(count, load.request_rate, burstiness, seed) for seed in seeds)
    due = chain.from_iterable(each)  # every repeat begins anew
    pairs = zip(requests, due, strict=True)
    return [msgspec.structs.replace(request, scheduled_ns=at) for request, at in pairs]


def _warmup(scenario: Scenario, options: PlanOptions) -> list[PlannedRequest]:
    def one(index: int) -> PlannedRequest:
        prompt: Prompt = scenario.warmup[index % len(scenario.warmup)]
        return PlannedRequest(
            id=f"w{index:03d}",
            prompt_index=index,
            prompt_id=prompt.id,
            prompt_sha256=prompt_sha256(prompt.messages),
            repeat=0,
            max_tokens=_max_tokens(WARMUP_TOKENS, options.max_tokens, WARMUP_TOKENS),
            seed=_derived_seed(options.seed, index, -1),
            language=prompt.language,
            messages=prompt.messages,
        )

    return [one(index) for index in range(options.warmup)]


def _derived_seed(seed: int, index: int, repeat: int) -> int:
    """A seed per request that all arms share; 31 bits, the least that every engine takes."""
    digest = hashlib.sha256(f"{seed}/{index}/{repeat}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def prompt_sha256(messages: tuple[Message, ...]) -> str:
    """The identity of a prompt, by which arms are paired."""
    return hashlib.sha256(msgspec.json.encode(messages)).hexdigest()


def with_previous_answer(request: PlannedRequest, answer: str) -> PlannedRequest:
    """A chained request completed: its text, and with it its hash, are known only now."""
    messages = tuple(
        Message(message.role, message.content.replace(PREVIOUS_ANSWER, answer))
        for message in request.messages
    )
    return msgspec.structs.replace(
        request, messages=messages, prompt_sha256=prompt_sha256(messages), chained=False
    )


def language_of(text: str) -> str | None:
    """`zh` or `en` where the letters leave no doubt: a fifth or more CJK, or ASCII words only."""
    letters = [char for char in text if char.isalpha()]
    if not letters:
        return None
    cjk = sum("\u4e00" <= char <= "\u9fff" for char in letters)
    if cjk * 5 >= len(letters):
        return "zh"
    ascii_letters = sum(char.isascii() for char in letters)
    return "en" if ascii_letters * 10 >= len(letters) * 9 else None
