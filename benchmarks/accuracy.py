"""The client and its peers against a server whose timing is known.

    python -m benchmarks.accuracy [--quick] [--clients NAME ...] [--streams N ...]

Prints Markdown. benchmarks/README.md says what is measured.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks import table, truth
from benchmarks.peers import CLIENTS, OURS, RUST, Client, Figures, Task, our_records
from benchmarks.table import Events, Row
from benchmarks.truth import Sent

STREAMS = (1, 2, 100, 500, 1000)
QUICK = (1, 2, 100)
TIMEOUT_S = 600


class RunError(Exception):
    """A client failed; the message is the last it printed."""


def main() -> None:
    """Run the table."""
    given = _arguments()
    clients = [client for client in CLIENTS if _wanted(client, given)]
    with tempfile.TemporaryDirectory() as scratch:
        program = truth.build(Path(scratch))
        _print(given.output, table.heading())
        for streams in given.streams:
            _print(given.output, table.head(streams))
            rows = {}
            for client in clients:
                try:
                    row = rows[client] = _run(client, streams, program, given)
                    _print(given.output, table.row(client.name, row))
                except RunError as error:
                    _print(given.output, table.line([client.name, f"failed: {error}"]))
            if OURS in rows:
                _print(given.output, table.targets(streams, rows[OURS], rows.get(RUST)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.accuracy", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"streams {QUICK} only")
    parser.add_argument("--streams", type=int, nargs="+", help=f"[default: {STREAMS}]")
    parser.add_argument("--clients", nargs="+", help="names, or beginnings of them")
    parser.add_argument("--engines", type=Path, default=Path(".engines"))
    parser.add_argument("--server-core", type=int, default=0)
    parser.add_argument("--client-core", type=int, default=1)
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--output", type=Path, help="a file that gets the same lines appended")
    given = parser.parse_args()
    given.streams = given.streams or (QUICK if given.quick else STREAMS)
    if not {given.server_core, given.client_core} <= os.sched_getaffinity(0):
        parser.error("needs two cores: see --server-core and --client-core")
    return given


def _wanted(client: Client, given: argparse.Namespace) -> bool:
    asked = not given.clients or client.name.startswith(tuple(given.clients))
    program = given.engines / client.program
    if asked and not program.exists():
        print(f"{client.name} is not installed: no {program}", file=sys.stderr)
        return False
    return asked


def _run(client: Client, streams: int, program: Path, given: argparse.Namespace) -> Row:
    with (
        tempfile.TemporaryDirectory() as folder,
        truth.serving(program, given.port, given.server_core) as server,
    ):
        task = Task(server.url, streams, given.engines, Path(folder))
        began = time.monotonic()
        cpu_s = run_pinned(client, task, (given.client_core,))
        wall_s = time.monotonic() - began
        sent = server.sent(last=task.requests)
        return Row(
            own=client.read(task),
            server=_server_figures(sent),
            cpu_us=cpu_s * 1e6 / sum(len(request.sent_ns) for request in sent),
            wall_s=wall_s,
            events=_compare(task, sent) if client is OURS else None,
        )


def run_pinned(client: Client, task: Task, cores: Sequence[int]) -> float:
    """Run it to its end on these cores; CPU seconds of it and the processes that it waited for.

    Raises RunError.
    """
    program = str((task.engines / client.program).absolute())
    command = ["taskset", "-c", ",".join(map(str, cores)), program, *client.command(task)]
    log = task.folder / "log.txt"
    before = os.times()
    with log.open("wb") as out:
        try:
            ended = subprocess.run(
                command,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=task.folder,
                env=os.environ | dict(client.environment),
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise RunError(f"not done in {TIMEOUT_S} s") from error
    # Ours exits 1 where it calls its own run invalid (a saturated core): the figures are there.
    if ended.returncode and not (client is OURS and ended.returncode == 1):
        last = log.read_text(errors="replace").strip().splitlines()[-1:]
        raise RunError(f"exit {ended.returncode}: {' '.join(last)}")
    after = os.times()
    user, system = (after[i] - before[i] for i in (2, 3))  # of children
    return user + system


def _server_figures(sent: list[Sent]) -> Figures:
    ttft = [request.ttft_ns for request in sent]
    return _figures(ttft, [np.diff(request.sent_ns) for request in sent])


def _figures(ttft_ns: list[int], gaps_ns: list[np.ndarray]) -> Figures:
    p99 = [float(np.percentile(ns, 99)) / 1e6 for ns in (ttft_ns, np.concatenate(gaps_ns))]
    return Figures(float(np.mean(ttft_ns)) / 1e6, *p99)


def _compare(task: Task, sent: list[Sent]) -> Events:
    """Pair every event that this client stamped with the sending of it."""
    began_ns, records = our_records(task)
    by_id = {request.id: request for request in sent}
    stamps = [np.array(record.events.at_ns) for record in records]
    pairs = zip(records, stamps, strict=True)
    errors = [at_ns + began_ns - by_id[record.id].sent_ns for record, at_ns in pairs]
    error_us = np.concatenate(errors) / 1e3
    return Events(
        error_p50=float(np.percentile(error_us, 50)),
        error_p99=float(np.percentile(error_us, 99)),
        error_max=float(error_us.max()),
        merged=sum(len(at_ns) - len(np.unique(at_ns)) for at_ns in stamps),
    )


def _print(path: Path | None, text: str) -> None:
    print(text, flush=True)
    if path:
        with path.open("a") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
