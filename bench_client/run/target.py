"""Measure a server that is up: who it is, its counters at both ends, the window between."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from bench_client.records import Plan, RequestRecord, RunHeader, Server, StampSource
from bench_client.run.conduct import measure_plan
from bench_client.run.options import Observer, RunOptions
from bench_client.run.record import trimmed
from bench_client.run.reported import with_report
from bench_client.run.server_facts import ControlPlane, ServerError, ServerFacts
from bench_client.run.server_watch import LAST_LOOK_S
from bench_client.run.store import RunFolder
from bench_client.run.telemetry import Mark
from bench_client.run.transports import tls_context
from bench_client.run.window import Hooks, Window
from bench_client.run.workers import WorkerError
from bench_client.wire.endpoint import Endpoint, EndpointError, parse_endpoint
from bench_client.wire.payload import Dialect
from bench_client.wire.proxy import check_proxy, is_local
from bench_client.wire.tls import refusal
from server_launchers.process import ServerProcess


@dataclass(slots=True)
class Target:
    """A server to measure, and where its results go. `header` is what is known so far.

    `epoch_ns` is when the run began, if this is not its first block: records count from there.
    `mark` is told where the measured window begins and ends, the observer how many requests are
    `to_come` (0: it was told before).
    """

    header: RunHeader
    plan: Plan
    folder: RunFolder
    process: ServerProcess | None = None
    model: str | None = None
    log_name: str = "server.log"
    epoch_ns: int | None = None
    to_come: int = 0
    stamps: StampSource | None = None
    mark: Mark = lambda _: None

    @property
    def log(self) -> Path:
        """Where a launched server writes."""
        return self.folder.path / self.log_name


class _Ends:
    """The server's counters and the size of its log, at both ends of the window."""

    def __init__(self, control: ControlPlane, log: Path) -> None:
        self._control = control
        self._log = log
        self.counters: list[dict[str, float] | None] = []
        self.log_bytes: list[int] = []

    def mark(self) -> None:
        """Now is an end."""
        self.counters.append(self._control.counters())
        self.log_bytes.append(self._log.stat().st_size if self._log.is_file() else 0)


def measure_target(target: Target, options: RunOptions, observer: Observer) -> RunHeader:
    """Run the plan; records go to the folder as they end, the finished header comes back.

    Raises:
        ServerError: no server there, or not the model asked for.
        StoreError: a record could not be written.
    """
    endpoint = parse_endpoint(target.header.server.url)
    with _control(endpoint, options) as control:
        facts = _identify(control, endpoint, target)
        model = _served_name(facts, target.model)
        server = with_report(target.header.server, facts, control, target.log)
        ends = _Ends(control, target.log)

        def begin() -> None:
            control.flush_caches(facts.dialect)
            ends.mark()
            _keep_begin(target, server, ends)
            target.mark("begin")
            if target.to_come:
                observer.begin(target.header.server.name, target.to_come)

        hooks = Hooks(
            on_record=_keeper(target, options, observer),
            on_begin=begin,
            server_lost=target.process.exit_reason if target.process else lambda: None,
            on_interrupt=observer.interrupted,
            epoch_ns=target.epoch_ns,
        )
        if target.plan.warmup:
            observer.phase("warming up")
        window = _measured(target, options, (model, facts.dialect), hooks)
        target.mark("end")
        ends.mark()
    return _finished(target, server, ends, window)


def _measured(
    target: Target, options: RunOptions, served: tuple[str, Dialect], hooks: Hooks
) -> Window:
    url = parse_endpoint(target.header.server.url).url
    through = options.transport_to(url)
    try:
        return measure_plan(target.plan, through, served, hooks, options.workers, options.ray)
    except (WorkerError, OSError, TimeoutError) as error:
        raise ServerError(_why(target, url, error)) from error


def _why(target: Target, url: str, error: Exception) -> str:
    """Why nothing could be measured: first of all that the server was launched, and is dead."""
    process = target.process
    deadline = time.monotonic() + LAST_LOOK_S
    while process and process.alive() and time.monotonic() < deadline:
        time.sleep(0.02)  # its sockets close a little before it ends
    if process and (died := process.exit_reason()):
        return f"{target.header.server.name}: the server died: {died}"
    why = str(error) or "no answer in time"
    return why if isinstance(error, WorkerError) else f"cannot connect to {url}: {why}"


def _control(endpoint: Endpoint, options: RunOptions) -> ControlPlane:
    """The control plane goes the way that the requests go."""
    if options.transport == "wire":
        check_proxy(endpoint)
    verify = tls_context(endpoint, options.ca, insecure=options.insecure) or True
    through_proxy = options.transport != "wire" and not is_local(endpoint)
    try:
        return ControlPlane(endpoint, options.headers, verify=verify, trust_env=through_proxy)
    except (ImportError, ValueError) as error:  # httpx says what it cannot do with a proxy
        raise EndpointError(f"--transport {options.transport}: {error}") from error


def _identify(control: ControlPlane, endpoint: Endpoint, target: Target) -> ServerFacts:
    engine, model = target.header.server.engine, target.model
    if target.process and engine == "transformers" and model:  # it cannot say which model it has
        return ServerFacts(
            models=(model,), dialect="transformers", engine=engine, version=None, info={}
        )
    try:
        return control.identify()
    except ServerError as error:
        if why := refusal(error):
            raise ServerError(f"{endpoint.url}: {why}") from error
        raise


def _served_name(facts: ServerFacts, asked: str | None) -> str:
    if asked and facts.dialect == "transformers":  # it lists what was ever downloaded
        return asked
    if asked is None and facts.models:
        return facts.models[0]
    if asked not in facts.models:
        known = ", ".join(facts.models) or "none"
        raise ServerError(
            f"the server has no model {asked!r}, it has: {known}; name one by --served-model-name"
        )
    return asked


def _keeper(
    target: Target, options: RunOptions, observer: Observer
) -> Callable[[RequestRecord], None]:
    """Writes each record as it ends. Token ids are kept where arms can be compared by them."""
    greedy = target.plan.sampling.temperature == 0

    def keep(record: RequestRecord) -> None:
        if record.sent_ns is not None:
            target.stamps = record.stamps
        kept = trimmed(record, text=options.save_text, token_ids=greedy or options.save_text)
        target.folder.append(kept)
        observer.record(kept)

    return keep


def _keep_begin(target: Target, server: Server, ends: _Ends) -> None:
    """What is known when the clock starts, for the case that this is all that ever will be."""
    known = msgspec.structs.replace(server, counters_before=ends.counters[0])
    target.header = msgspec.structs.replace(target.header, server=known)
    if target.epoch_ns is None:
        target.folder.write_header(target.header)


def _finished(target: Target, server: Server, ends: _Ends, window: Window) -> RunHeader:
    begin, end = ends.log_bytes
    before, after = ends.counters
    server = msgspec.structs.replace(
        server,
        ready_s=target.process.ready_s if target.process else None,
        log_windows=((target.log_name, begin, end),) if server.log else (),
        counters_before=before,
        counters_after=after,
    )
    cold = "; ".join(window.warmup_failures)
    return msgspec.structs.replace(
        target.header,
        server=server,
        client=msgspec.structs.replace(window.client, stamp_source=target.stamps),
        began_unix_ns=window.began_unix_ns,
        duration_ns=window.duration_ns,
        ended=_ended(window),
        note=window.server_lost or (f"warm-up failed: {cold}" if cold else None),
    )


def _ended(window: Window) -> Literal["complete", "interrupted", "aborted"]:
    if window.interrupted:
        return "interrupted"
    return "aborted" if window.server_lost else "complete"
