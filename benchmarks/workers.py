"""How many events several workers carry, against one.

    python -m benchmarks.workers [--workers N ...] [--streams N ...]

Prints Markdown. An event is carried if it has a stamp of its own: a client that falls behind
merges events. Wants a core for the server and one for each worker.
CPU is that of the workers within the measured window.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import truth
from benchmarks.accuracy import RunError, run_pinned
from benchmarks.peers import OURS, Task, our_records

STREAMS = (500, 1000, 1500, 2000, 3000)
WORKERS = (1, 2)
TARGET = 1.8


def main() -> None:
    """Run the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.workers", description=__doc__)
    parser.add_argument("--streams", type=int, nargs="+", default=STREAMS)
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    parser.add_argument("--port", type=int, default=9000)
    given = parser.parse_args()
    print("| workers | streams | events/s sent | carried | merged | CPU us/event |")
    print("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as scratch:
        program = truth.build(Path(scratch))
        most = {
            workers: max(
                _carried(program, given.port, workers, streams) for streams in given.streams
            )
            for workers in given.workers
        }
    few, many = min(most), max(most)
    if few < many:
        ratio = most[many] / most[few]
        verdict = "met" if ratio >= TARGET / 2 * many / few else "MISSED"
        print(f"\n- {verdict}: {many} workers carry {ratio:.2f} times the events of {few}")


def _carried(program: Path, port: int, workers: int, streams: int) -> float:
    """Events a second that came with a stamp of their own; 0 where the run failed."""
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
    seconds = np.ptp(sent) / 1e9
    carried = sum(len(set(at_ns)) for at_ns in stamps)
    events = sum(map(len, stamps))
    cells = (
        *(workers, streams, f"{len(sent) / seconds:,.0f}", f"{carried / seconds:,.0f}"),
        *(f"{events - carried:,}", f"{cpu_s * 1e6 / events:.1f}"),
    )
    print(f"| {' | '.join(map(str, cells))} |", flush=True)
    return float(carried / seconds)


if __name__ == "__main__":
    main()
