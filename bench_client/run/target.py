"""Measure a server that is up: who it is, its counters at both ends, the window between."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from bench_client.records import Plan, RequestRecord, RunHeader, StampSource
from bench_client.run.conduct import measure_plan
from bench_client.run.options import Observer, RunOptions
from bench_client.run.record import trimmed
from bench_client.run.server_facts import ControlPlane, ServerError, ServerFacts
from bench_client.run.store import RunFolder
from bench_client.run.transports import check_proxy, tls_context
from bench_client.run.window import Hooks, Window
from bench_client.run.workers import WorkerError
from bench_client.wire.endpoint import parse_endpoint
from server_launchers.process import ServerProcess


@dataclass(slots=True)
class Target:
    """A server to measure, and where its results go. `header` is what is known so far."""

    header: RunHeader
    plan: Plan
    folder: RunFolder
    process: ServerProcess | None = None
    model: str | None = None
    stamps: StampSource | None = None

    @property
    def log(self) -> Path:
        """Where a launched server writes."""
        return self.folder.path / "server.log"


@dataclass(slots=True)
class _Ends:
    """The server's counters and the size of its log at both ends of the window."""

    counters: list[dict[str, float] | None] = field(default_factory=list)
    log_bytes: list[int] = field(default_factory=list)


def measure_target(target: Target, options: RunOptions, observer: Observer) -> RunHeader:
    """Run the plan; records go to the folder as they end, the finished header comes back.

    Raises:
        ServerError: no server there, or not the model asked for.
        StoreError: a record could not be written.
    """
    endpoint = parse_endpoint(target.header.server.url)
    if options.transport == "wire":
        check_proxy(endpoint)
    ends = _Ends()
    verify = tls_context(endpoint, options.ca, insecure=options.insecure) or True
    with ControlPlane(endpoint, options.headers, verify=verify) as control:
        facts = control.identify()
        model = _served_name(facts, target.model)

        def mark_end() -> None:
            ends.counters.append(control.counters())
            ends.log_bytes.append(target.log.stat().st_size if target.log.is_file() else 0)

        def begin() -> None:
            control.flush_caches(facts.dialect)
            mark_end()
            observer.begin(target.header.server.name, len(target.plan.requests))

        hooks = Hooks(
            on_record=_keeper(target, options, observer),
            on_begin=begin,
            server_lost=target.process.exit_reason if target.process else lambda: None,
            on_interrupt=observer.interrupted,
        )
        observer.phase("warming up")
        try:
            window = measure_plan(
                target.plan,
                options.transport_to(endpoint.url),
                (model, facts.dialect),
                hooks,
                options.workers,
            )
        except (OSError, TimeoutError) as error:
            raise ServerError(f"cannot connect to {endpoint.url}: {error}") from error
        except WorkerError as error:
            raise ServerError(str(error)) from error
        mark_end()
    return _finished(target, facts, ends, window)


def _served_name(facts: ServerFacts, asked: str | None) -> str:
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
        target.stamps = record.stamps
        target.folder.append(
            trimmed(record, text=options.save_text, token_ids=greedy or options.save_text)
        )
        observer.record(record)

    return keep


def _finished(target: Target, facts: ServerFacts, ends: _Ends, window: Window) -> RunHeader:
    before, after = ends.counters
    begin, end = ends.log_bytes
    asked = target.header.server
    server = msgspec.structs.replace(
        asked,
        engine=asked.engine or facts.engine,
        engine_version=facts.version,
        model=asked.model or facts.models[0],
        log_window=(begin, end) if asked.log else None,
        counters_before=before,
        counters_after=after,
    )
    return msgspec.structs.replace(
        target.header,
        server=server,
        client=msgspec.structs.replace(window.client, stamp_source=target.stamps),
        began_unix_ns=window.began_unix_ns,
        duration_ns=window.duration_ns,
        ended=_ended(window),
        note=window.server_lost,
    )


def _ended(window: Window) -> Literal["complete", "interrupted", "aborted"]:
    if window.interrupted:
        return "interrupted"
    return "aborted" if window.server_lost else "complete"
