"""How many events several workers carry, against one.

    python -m benchmarks.workers [--workers N ...] [--streams N ...]

Prints Markdown. A load is carried if at most one event in a thousand is merged with a later one, as
happens where a client falls behind: merged events have lost their stamps. The streams are raised
until that is so. Wants a core for the server and one for each worker. CPU is that of the workers
within the measured window.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks import truth
from benchmarks.accuracy import RunError, run_pinned
from benchmarks.peers import OURS, Task, our_records

STREAMS = (500, 750, 1000, 1250, 1500, 2000, 2500)
WORKERS = (1, 2)
TARGET = 1.8
MERGED = 0.001


def main() -> None:
    """Run the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.workers", description=__doc__)
    parser.add_argument("--streams", type=int, nargs="+", default=STREAMS)
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    parser.add_argument("--port", type=int, default=9000)
    given = parser.parse_args()
    print("| workers | streams | events/s | merged | CPU us/event | |")
    print("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as scratch:
        program = truth.build(Path(scratch))
        most = {
            workers: _most(program, given.port, workers, given.streams) for workers in given.workers
        }
    few, many = min(most), max(most)
    if few < many and most[few]:
        ratio = most[many] / most[few]
        verdict = "met" if ratio >= TARGET / 2 * many / few else "MISSED"
        print(f"\n- {verdict}: {many} workers carry {ratio:.2f} times the events of {few}")


def _most(program: Path, port: int, workers: int, loads: Sequence[int]) -> float:
    """The most events a second that are carried."""
    most = 0.0
    for streams in sorted(loads):
        carried = _carried(program, port, workers, streams)
        if not carried:
            break
        most = max(most, carried)
    return most


def _carried(program: Path, port: int, workers: int, streams: int) -> float:
    """Events a second; 0 where too many were merged, or the run failed."""
    server_core, *cores = sorted(os.sched_getaffinity(0))
    with (
        tempfile.TemporaryDirectory() as folder,
        truth.serving(program, port, server_core) as server,
    ):
        task = Task(server.url, streams, Path(), Path(folder), workers)
        try:
            run_pinned(OURS, task, cores or [server_core])
        except RunError as error:
            print(f"| {workers} | {streams} | failed: {error} | | | |", flush=True)
            return 0
        sent = np.concatenate([request.sent_ns for request in server.sent(last=task.requests)])
        stamps = [record.events.at_ns for record in our_records(task)[1]]
        cpu_s = json.loads(next(task.folder.glob("*/run.json")).read_bytes())["client"]["cpu_s"]
    rate = len(sent) / (np.ptp(sent) / 1e9)
    events = sum(map(len, stamps))
    merged = events - sum(len(set(at_ns)) for at_ns in stamps)
    carried = merged <= MERGED * events
    cells = (
        *(workers, streams, f"{rate:,.0f}", f"{merged:,} of {events:,}"),
        *(f"{cpu_s * 1e6 / events:.1f}", "carried" if carried else "not carried"),
    )
    print(f"| {' | '.join(map(str, cells))} |", flush=True)
    return float(rate) if carried else 0


if __name__ == "__main__":
    main()
