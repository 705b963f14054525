"""What only `run` is asked: the plan's options, and the client's."""

from pathlib import Path

import click

from bench_client.cli.extra_body import ExtraBody
from bench_client.cli.options import (
    MOST_IN_FLIGHT,
    MOST_REPEATS,
    MOST_SEED,
    MOST_TOKENS,
    Header,
    Number,
    Rate,
    Workers,
    options,
    transport_option,
)

plan_options = options(
    click.option("--scenario", default="eleven-prompts", show_default=True, help="Name or file."),
    click.option(
        "--concurrency",
        type=click.IntRange(1, MOST_IN_FLIGHT),
        help="Requests in flight [default: 1].",
    ),
    click.option("--request-rate", type=Number(1e-3, 1e6), help="Open loop: requests/s."),
    click.option(
        "--burstiness",
        type=Number(1e-2, 1e4),
        help="Shape of the open loop's gaps: 1 is Poisson, more is more even [default: 1].",
    ),
    click.option(
        "--max-concurrency",
        type=click.IntRange(1, MOST_IN_FLIGHT),
        help="Cap on an open loop's requests in flight.",
    ),
    click.option(
        "--temperature",
        type=Number(0, 100),
        help="Of sampling; 0 is greedy [default: the scenario's, else 0.6].",
    ),
    click.option(
        "--max-tokens",
        type=click.IntRange(1, MOST_TOKENS),
        help="Limit on each answer's tokens. A prompt with a limit of its own keeps the smaller of "
        "both [default: the scenario's, else 1024].",
    ),
    click.option("--ignore-eos", is_flag=True, help="Generate to the token limit."),
    click.option(
        "--repeat",
        type=click.IntRange(1, MOST_REPEATS),
        default=1,
        show_default=True,
        help="Times that the prompts are replayed. Two servers take turns (A B B A), each launched "
        "anew for its turn, so that what drifts is told from what differs.",
    ),
    click.option(
        "--warmup",
        type=click.IntRange(0, MOST_REPEATS),
        default=2,
        show_default=True,
        help="Requests after each launch that are not counted.",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0, MOST_SEED),
        default=0,
        show_default=True,
        help="Of each request's sampling and of an open loop's arrivals.",
    ),
    click.option(
        "--extra-body",
        type=ExtraBody(),
        help="JSON merged into every request; not what has an option here.",
    ),
    click.option(
        "--api",
        type=click.Choice(["chat", "completions", "generate"]),
        default="chat",
        show_default=True,
        help="What is called: /v1/chat/completions, /v1/completions, or SGLang's /generate.",
    ),
)

client_options = options(
    transport_option,
    click.option(
        "--workers",
        type=Workers(),
        default="1",
        show_default=True,
        metavar="N|ray://ADDRESS",
        help="Processes that send, or a Ray cluster: one a node, or ?workers=N.",
    ),
    click.option(
        "--calibrate/--no-calibrate",
        default=True,
        show_default=True,
        help="Measure the client's own error after the run.",
    ),
    click.option(
        "--ca",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="CA file to trust for https.",
    ),
    click.option("--insecure", is_flag=True, help="Trust any certificate."),
    click.option("--rate-limit", type=Rate(), help="For hosted APIs: N/s, N/min or N/h."),
    click.option("--retry-429", is_flag=True, help="Wait where the server says Retry-After."),
    click.option(
        "--stall-timeout",
        type=Number(0, 86_400, above=True),
        default=120.0,
        show_default=True,
        help="Seconds without a byte after which a request has failed.",
    ),
    click.option("--api-key-env", metavar="NAME", help="Variable that holds the API key."),
    click.option("--header", "headers", type=Header(), multiple=True, help="'Name: value'."),
    click.option("--save-text", is_flag=True, help="Keep the answers in requests.jsonl."),
    click.option("--quiet", is_flag=True, help="No progress, no report."),
    click.option("--json", "as_json", is_flag=True, help="Print the summaries as JSON."),
)
