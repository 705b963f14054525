"""One arm: launch (or find) the server, measure, tear down, and leave a results folder."""

import os
import platform
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec
from msgspec import Struct

import bench_client
from bench_client.measure.figures import Summary
from bench_client.measure.timeline import concurrency
from bench_client.records import FORMAT, Client, Plan, Run, RunHeader, Server
from bench_client.run.blocks import joined, plan_of
from bench_client.run.calibrate import calibrate, observed_load
from bench_client.run.environment import describe_machine
from bench_client.run.fold import fold, write_reports
from bench_client.run.listener import is_here, listener
from bench_client.run.options import Arm, Observer, RunOptions
from bench_client.run.secrets import redacted_json
from bench_client.run.serving import Serving
from bench_client.run.store import RunFolder, StoreError, load_run
from bench_client.run.target import Target, measure_target
from bench_client.run.telemetry import Mark, sampling
from bench_client.run.workers import WorkerError
from bench_client.wire.endpoint import parse_endpoint
from server_launchers.process import LaunchError, ServerProcess
from server_launchers.shell import redacted


class ArmResult(Struct, frozen=True, kw_only=True):
    """A finished arm and where it is; `unsaved` says why its reports are not there."""

    run: Run
    summary: Summary
    folder: Path
    unsaved: StoreError | None = None


class ArmRun:
    """One arm's results folder, filled repeat by repeat.

    Each repeat is a window of its own, with the caches flushed before it: repeats that run into
    each other would find their prompts in the prefix cache.
    """

    def __init__(self, arm: Arm, plan: Plan, options: RunOptions, observer: Observer) -> None:
        """Make the folder. StoreError where that is not possible."""
        self._arm = arm
        self._plan = plan
        self._options = options
        self._observer = observer
        self._folder = RunFolder.create(options.results, plan.scenario, arm.name, options.secrets)
        self._first = _first_header(arm, plan, options)
        self._measured: RunHeader | None = None
        self._serving = Serving(arm, observer)
        self._launches = 0
        self._unfinished: Target | None = None
        self._folder.write_header(self._first)

    @property
    def name(self) -> str:
        """The arm's."""
        return self._arm.name

    @property
    def measured(self) -> bool:
        """Whether there is anything to report."""
        return self._measured is not None

    @property
    def complete(self) -> bool:
        """Whether every block so far ran to its end."""
        return self._measured is not None and self._measured.ended == "complete"

    @property
    def left_behind(self) -> tuple[str, ...]:
        """What the teardowns of its server left, a line each."""
        return self._serving.left

    def held(self) -> str | None:
        """What its server, stopped, still holds now, in one line."""
        return self._serving.held()

    def measure(self, repeats: Sequence[int]) -> None:
        """Launch the server, measure these repeats one by one, tear it down.

        Raises:
            LaunchError: the server could not be launched; the folder keeps its log.
            ServerError: the server at the URL is not one, or lacks the model.
            StoreError: results cannot be written; what was written stays.
        """
        self._launches += 1
        log = "server.log" if self._launches == 1 else f"server-{self._launches}.log"
        target = self._begin(repeats[0])
        target.to_come = len(plan_of(self._plan, repeats).requests)
        try:
            with (
                self._serving.launched(self._folder.path / log) as process,
                self._sampling(process) as mark,
            ):
                for number, repeat in enumerate(repeats):
                    target = self._begin(repeat, warm=True) if number else target
                    target.process, target.mark, target.log_name = process, mark, log
                    self._finish(measure_target(target, self._options, self._observer))
                    if not self.complete:
                        break
        except BaseException as error:
            if self._unfinished:  # else it was the teardown that failed
                self._abort(self._measured or self._unfinished.header, error)
            raise
        if self._measured and self.left_behind:
            self._measured = self._write(self._measured)

    def _begin(self, repeat: int, *, warm: bool = False) -> Target:
        """One repeat of the plan. A server that is warm needs no warm-up again."""
        before, plan = self._measured, plan_of(self._plan, (repeat,))
        if before:  # what is on disk is no whole run any more
            self._write(msgspec.structs.replace(before, ended=None))
        self._unfinished = Target(
            header=self._first,
            plan=msgspec.structs.replace(plan, warmup=()) if warm else plan,
            folder=self._folder,
            model=self._arm.served_model_name,
            epoch_ns=before.began_unix_ns if before else None,
        )
        return self._unfinished

    def _finish(self, header: RunHeader) -> None:
        before, self._unfinished = self._measured, None
        self._measured = self._write(joined(before, header) if before else header)

    def _write(self, header: RunHeader) -> RunHeader:
        """The header, with what the teardowns so far have left, is on disk."""
        server = msgspec.structs.replace(header.server, teardown=self.left_behind)
        header = msgspec.structs.replace(header, server=server)
        self._folder.write_header(header)
        return header

    def _sampling(self, process: ServerProcess | None) -> AbstractContextManager[Mark]:
        """Of our processes, and of the server's if they are on this machine and known."""
        path, trees = self._folder.path / "telemetry.jsonl", {"client": os.getpid()}
        if process:
            return sampling(path, trees | {"server": process.pid})
        endpoint = parse_endpoint(self._arm.url or "")
        here = is_here(endpoint)
        pid = listener(endpoint) if here else None
        return sampling(path, trees | ({"server": pid} if pid else {}), here=here)

    def _abort(self, known: RunHeader, error: BaseException) -> None:
        """Say in the folder, if it can be written, why the run is no whole one."""
        signal = isinstance(error, KeyboardInterrupt)
        header = msgspec.structs.replace(
            known,
            ended="interrupted" if signal else "aborted",
            note=None if signal else str(error) or type(error).__name__,
        )
        if self._measured:
            self._measured = header
        with suppress(StoreError):
            self._write(header)

    def calibrate(self) -> None:
        """Measure the client's own error at the load that the run really was, if that was asked.

        A client that cannot be calibrated has measured all the same; the header says why.
        """
        header = self._measured
        if header is None or not self._options.calibrate:
            return
        self._observer.phase(f"calibrating the client for {self.name}")
        try:
            header = _calibrated(header, self._folder, self._options)
        except (LaunchError, WorkerError, OSError, httpx.HTTPError) as error:
            notes = filter(None, (header.note, f"not calibrated: {error}"))
            header = msgspec.structs.replace(header, note="; ".join(notes))
        self._folder.write_header(header)

    def discard(self) -> Path | None:
        """It could not be measured: remove the folder, unless it has a server's log or records.

        This, if so.
        """
        log, records = (self._folder.path / name for name in ("server.log", "requests.jsonl"))
        if log.is_file() or records.stat().st_size:
            self._folder.close()
            return log if log.is_file() else records
        self._folder.discard()
        return None

    def finish(self) -> ArmResult:
        """Fold and report; a full disk keeps nobody from seeing it. StoreError: unreadable."""
        path, unsaved = self._folder.path, None
        run, summary = fold(path)
        try:
            write_reports(self._folder, run, summary)
        except StoreError as error:
            unsaved = error
        self._folder.close()
        return ArmResult(run=run, summary=summary, folder=path, unsaved=unsaved)


def _first_header(arm: Arm, plan: Plan, options: RunOptions) -> RunHeader:
    command = arm.command
    return RunHeader(
        format=FORMAT,
        bench_client_version=bench_client.__version__,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        began_unix_ns=0,
        argv=options.argv,
        plan=_as_kept(plan),
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
        client=Client(
            python=platform.python_version(), transport=options.transport, workers=options.workers
        ),
    )


def _as_kept(plan: Plan) -> Plan:
    """The plan as `run.json` keeps it: prompts by hash, not by text, and no secrets."""

    def strip(requests: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(msgspec.structs.replace(request, messages=()) for request in requests)

    body = redacted_json(plan.sampling.extra_body)
    return msgspec.structs.replace(
        plan,
        requests=strip(plan.requests),
        warmup=strip(plan.warmup),
        sampling=msgspec.structs.replace(plan.sampling, extra_body=body),
    )


def _calibrated(header: RunHeader, folder: RunFolder, options: RunOptions) -> RunHeader:
    """The header with the client's own error at the load that the run really was."""
    records = load_run(folder.path).records
    streams = header.plan.load.concurrency or concurrency(records, None).peak or 0
    load = observed_load(records, min(streams, len(records)), options.workers)
    client = msgspec.structs.replace(header.client, calibration=calibrate(load, options.transport))
    return msgspec.structs.replace(header, client=client)
