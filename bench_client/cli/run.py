"""`bench-client run`: launch, replay, measure, tear down, compare."""

from pathlib import Path
from typing import Any

import click

from bench_client.cli.options import LAUNCH_ONLY, Rate, results_option, server_options
from bench_client.cli.run_options import client_options, plan_options


@click.command()
@click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="NAME",
    help="A server to launch; may be repeated, the first is the baseline: sglang, sglang-eagle3, "
    "vllm, vllm-eagle3, transformers, transformers-eagle3, eagle-plain, sim, sim-eagle3, or of "
    "your own presets.",
)
@click.option("--url", help="Root of a server that runs already.")
@click.option("--name", help="With --url: what to call it in the report.")
@server_options
@plan_options
@client_options
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
    _check_servers(given)
    if given["transport"] == "openai" and given["api"] == "generate":
        raise click.UsageError("the openai SDK has no --api generate: take --transport httpx")
    if given["request_rate"] is None:
        for name in ("burstiness", "max_concurrency"):
            if given[name] is not None:
                flag = "--" + name.replace("_", "-")
                raise click.UsageError(f"{flag} goes with --request-rate")
    elif given["concurrency"] is not None:
        raise click.UsageError("--concurrency is a closed loop, --request-rate an open one")


def _check_servers(given: dict[str, Any]) -> None:
    servers, url = given["servers"], given["url"]
    if servers and url:
        raise click.UsageError("--server launches one, --url measures one that runs: not both")
    if not servers and not url:
        raise click.UsageError("give --server NAME (may be repeated) or --url URL")
    if given["name"] and not url:
        raise click.UsageError("--name goes with --url; a --server has its own")
    if len(set(servers)) < len(servers):
        raise click.UsageError("a --server is named twice; to repeat it use --repeat")
    for option in click.get_current_context().command.params if url else ():
        if option.name in LAUNCH_ONLY and given[option.name]:
            raise click.UsageError(f"{option.opts[0]} goes with --server, not with --url")


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
