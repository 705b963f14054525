"""One arm: launch (or find) the server, measure, tear down, and leave a results folder."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

import bench_client
from bench_client.measure.figures import Summary
from bench_client.measure.timeline import concurrency
from bench_client.records import FORMAT, Client, Plan, Run, RunHeader, Server
from bench_client.run.calibrate import calibrate, observed_load
from bench_client.run.environment import describe_machine
from bench_client.run.fold import write_reports
from bench_client.run.options import Arm, Observer, RunOptions
from bench_client.run.store import RunFolder, load_run
from bench_client.run.target import Target, measure_target
from bench_client.run.telemetry import sampling
from bench_client.wire.endpoint import parse_endpoint
from server_launchers.process import ServerProcess
from server_launchers.shell import redacted


class ArmResult(Struct, frozen=True, kw_only=True):
    """A finished arm and where it is."""

    run: Run
    summary: Summary
    folder: Path


def run_arm(arm: Arm, plan: Plan, options: RunOptions, observer: Observer) -> ArmResult:
    """Run one arm to its report.

    Raises:
        LaunchError: the server could not be launched; the folder keeps its log.
        ServerError: the server at the URL is not one, or lacks the model.
        StoreError: results cannot be written; what was written stays.
    """
    with RunFolder.create(options.results, plan.scenario, arm.name) as folder:
        header = _first_header(arm, plan, options)
        folder.write_header(header)
        try:
            with _serving(arm, folder.path, observer) as process:
                target = Target(header, plan, folder, process, arm.served_model_name)
                with sampling(folder.path / "telemetry.jsonl", _trees(process)):
                    header = measure_target(target, options, observer)
                folder.write_header(header)
            header = _calibrated(header, folder, options, observer)
            folder.write_header(header)
        except BaseException as error:
            reason = str(error) or type(error).__name__
            folder.write_header(msgspec.structs.replace(header, ended="aborted", note=reason))
            raise
        run, summary = write_reports(folder)
        return ArmResult(run=run, summary=summary, folder=folder.path)


def _first_header(arm: Arm, plan: Plan, options: RunOptions) -> RunHeader:
    command = arm.command
    return RunHeader(
        format=FORMAT,
        bench_client_version=bench_client.__version__,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        began_unix_ns=0,
        argv=options.argv,
        plan=_without_text(plan),
        server=Server(
            name=arm.name,
            url=command.url if command else parse_endpoint(arm.url or "").url,
            engine=command.engine if command else None,
            argv=redacted(command.argv) if command else (),
            model=arm.model,
            draft_model=arm.draft_model,
            speculative_asked=command.speculative_asked if command else None,
            simulated=arm.simulated,
            log="server.log" if command else None,
        ),
        environment=describe_machine(),
        client=Client(python="", transport=options.transport),
    )


def _without_text(plan: Plan) -> Plan:
    """The plan as `run.json` keeps it: prompts by hash, not by text."""

    def strip(requests: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(msgspec.structs.replace(request, messages=()) for request in requests)

    return msgspec.structs.replace(plan, requests=strip(plan.requests), warmup=strip(plan.warmup))


def _trees(process: ServerProcess | None) -> dict[str, int]:
    """What telemetry tells apart: our processes, and the server's where we launched it."""
    ours = {"client": os.getpid()}
    return ours if process is None else ours | {"server": process.pid}


def _calibrated(
    header: RunHeader, folder: RunFolder, options: RunOptions, observer: Observer
) -> RunHeader:
    """The header with the client's own error at the load that the run really was."""
    if not options.calibrate or header.ended != "complete":
        return header
    observer.phase("calibrating the client")
    records = load_run(folder.path).records
    load = header.plan.load
    streams = load.concurrency or concurrency(records, None).peak
    found = calibrate(
        observed_load(records, min(streams, len(records)), options.workers), options.transport
    )
    client = msgspec.structs.replace(header.client, calibration=found)
    return msgspec.structs.replace(header, client=client)


@contextmanager
def _serving(arm: Arm, folder: Path, observer: Observer) -> Iterator[ServerProcess | None]:
    """The arm's server, up; torn down whatever happens. Null where it was running already."""
    if arm.command is None:
        yield None
        return
    observer.phase(f"launching {arm.name}")
    process = ServerProcess.start(arm.command, folder / "server.log")
    try:
        process.wait_ready()
        yield process
    finally:
        observer.phase(f"stopping {arm.name}")
        process.stop()
