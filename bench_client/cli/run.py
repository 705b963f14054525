"""`bench-client run`: launch, replay, measure, tear down, compare."""

from pathlib import Path
from typing import Any

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
    results_option,
    server_options,
)

_plan_options = options(
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
        help="Shape of the open loop's gaps: 1 is Poisson.",
    ),
    click.option(
        "--max-concurrency",
        type=click.IntRange(1, MOST_IN_FLIGHT),
        help="Cap on an open loop's requests in flight.",
    ),
    click.option("--temperature", type=Number(0, 100), help="[default: 0.6]"),
    click.option(
        "--max-tokens",
        type=click.IntRange(1, MOST_TOKENS),
        help="Limit on each answer's tokens. A prompt with a limit of its own keeps the smaller of "
        "both [default: the scenario's, else 1024].",
    ),
    click.option("--ignore-eos", is_flag=True, help="Generate to the token limit."),
    click.option("--repeat", type=click.IntRange(1, MOST_REPEATS), default=1, show_default=True),
    click.option("--warmup", type=click.IntRange(0, MOST_REPEATS), default=2, show_default=True),
    click.option("--seed", type=click.IntRange(0, MOST_SEED), default=0, show_default=True),
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
    ),
)

_client_options = options(
    click.option(
        "--transport",
        type=click.Choice(["wire", "httpx", "openai"]),
        default="wire",
        show_default=True,
        help="wire is the instrument; the others show what an application sees.",
    ),
    click.option(
        "--workers",
        type=Workers(),
        default="1",
        show_default=True,
        metavar="N|ray://ADDRESS",
        help="Processes that send, or a Ray cluster: one a node, or ?workers=N.",
    ),
    click.option("--calibrate/--no-calibrate", default=True, help="Measure the client's error."),
    click.option(
        "--ca",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="CA file to trust for https.",
    ),
    click.option("--insecure", is_flag=True, help="Trust any certificate."),
    click.option("--rate-limit", type=Rate(), help="For hosted APIs: N/s, N/min or N/h."),
    click.option("--retry-429", is_flag=True, help="Wait where the server says Retry-After."),
    click.option("--stall-timeout", type=Number(0, 86_400, above=True), default=120.0),
    click.option("--api-key-env", metavar="NAME", help="Variable that holds the API key."),
    click.option("--header", "headers", type=Header(), multiple=True, help="'Name: value'."),
    click.option("--save-text", is_flag=True, help="Keep the answers in requests.jsonl."),
    click.option("--quiet", is_flag=True, help="No progress, no report."),
    click.option("--json", "as_json", is_flag=True, help="Print the summaries as JSON."),
)


@click.command()
@click.option("--server", "servers", multiple=True, help="A server to launch; may be repeated.")
@click.option("--url", help="Root of a server that runs already.")
@click.option("--name", help="With --url: what to call it in the report.")
@server_options
@_plan_options
@_client_options
@results_option
def run(**given: Any) -> int:
    """Replay a scenario against one or more servers and report.

    Several --server run one after another on the same prompts and end with the comparison.
    """
    from bench_client.cli.experiment import Experiment, run_experiment

    _check(given)
    given |= _workers(*given["workers"])
    plan, arms = _plan(given), _arms(given)
    experiment = Experiment(plan=plan, arms=arms, options=_run_options(given, arms))
    return run_experiment(experiment, quiet=given["quiet"], as_json=given["as_json"])


def _check(given: dict[str, Any]) -> None:
    if bool(given["servers"]) == bool(given["url"]):
        raise click.UsageError("give --server NAME (may be repeated) or --url URL")
    if given["transport"] == "openai" and given["api"] == "generate":
        raise click.UsageError("the openai SDK has no --api generate: take --transport httpx")
    if given["name"] and not given["url"]:
        raise click.UsageError("--name goes with --url; a --server has its own")
    if len(set(given["servers"])) < len(given["servers"]):
        raise click.UsageError("a --server is named twice; to repeat it use --repeat")
    if given["request_rate"] is None:
        for name in ("burstiness", "max_concurrency"):
            if given[name] is not None:
                flag = "--" + name.replace("_", "-")
                raise click.UsageError(f"{flag} goes with --request-rate")
    elif given["concurrency"] is not None:
        raise click.UsageError("--concurrency is a closed loop, --request-rate an open one")


def _workers(count: int | None, ray: str | None) -> dict[str, Any]:
    """How many workers, and the cluster they run on, reached before anything is launched."""
    if ray is None:
        return {"workers": count, "ray": None}
    from bench_client.run.ray_workers import join

    nodes = join(ray)
    return {"workers": count or nodes, "ray": ray}


def _plan(given: dict[str, Any]) -> Any:
    from bench_client.plan.build import PlanOptions, build_plan
    from bench_client.plan.scenario import load_scenario
    from bench_client.records import Load
    from bench_client.run.shards import shards

    rate = given["request_rate"]
    if rate is None:
        load = Load(
            kind="closed",
            concurrency=given["concurrency"] or 1,
            rate_limit=Rate.text(given["rate_limit"]),
        )
    else:
        load = Load(
            kind="open",
            request_rate=rate,
            burstiness=given["burstiness"] or 1.0,
            max_concurrency=given["max_concurrency"],
            rate_limit=Rate.text(given["rate_limit"]),
        )
    chosen = PlanOptions(
        load=load,
        repeats=given["repeat"],
        warmup=given["warmup"],
        seed=given["seed"],
        temperature=given["temperature"],
        max_tokens=given["max_tokens"],
        ignore_eos=given["ignore_eos"],
        extra_body=given["extra_body"] or {},
        api=given["api"],
    )
    plan = build_plan(load_scenario(given["scenario"]), chosen)
    shards(plan, given["workers"])  # refuses what cannot be shared out before anything starts
    return plan


def _arms(given: dict[str, Any]) -> Any:
    from bench_client.run.options import Arm
    from bench_client.wire.endpoint import parse_endpoint

    if given["url"]:
        parse_endpoint(given["url"])
        asked = given["served_model_name"] or given["model"]
        name = given["name"] or "url"
        return (Arm(name=name, url=given["url"], served_model_name=asked, model=given["model"]),)
    from bench_client.cli.launching import launch_arms

    return launch_arms(given)


def _run_options(given: dict[str, Any], arms: Any) -> Any:
    import sys

    from bench_client.cli.secrets import authorization, launch_secrets, without_secrets
    from bench_client.run.options import RunOptions
    from bench_client.run.secrets import secrets_of
    from bench_client.wire.paced import Pacing
    from bench_client.wire.transport import Limits

    requests, period_s = given["rate_limit"] or (None, 1.0)
    headers = dict(given["headers"]) | authorization(given["api_key_env"])
    return RunOptions(
        results=Path(given["results"]),
        argv=without_secrets(sys.argv),
        headers=headers,
        secrets=(*secrets_of(headers, given["extra_body"] or {}), *launch_secrets(arms)),
        transport=given["transport"],
        pacing=Pacing(requests, period_s, given["retry_429"]),
        workers=given["workers"],
        ray=given["ray"],
        calibrate=given["calibrate"],
        ca=str(given["ca"]) if given["ca"] else None,
        insecure=given["insecure"],
        limits=Limits(stall_s=given["stall_timeout"]),
        save_text=given["save_text"],
    )
