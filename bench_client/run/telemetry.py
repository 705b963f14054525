"""Samples of the machine while a run is measured, by a process of its own: off the hot path.

`python -m bench_client.run.telemetry FILE` appends a JSON line to FILE every second until its
standard input closes, which it does in whatever way its parent ends. A word on standard input
asks for a line of the GPUs at once, marked by it, and is answered once that is written. What a
machine does not have is left out. Fields are named with their units.
"""

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil

from bench_client.run.environment import in_container
from bench_client.run.gpu_sensors import Gpus

INTERVAL_S = 1.0
PATIENCE_S = 5.0  # with a sampler that does not answer

Mark = Callable[[str], None]


@contextlib.contextmanager
def sampling(path: Path, trees: Mapping[str, int], *, here: bool = True) -> Iterator[Mark]:
    """Sample into `path` while the context lasts. `trees`: names (client, server) of root pids.

    What it gives marks the present instant, "begin" and "end" of what is measured. `here` is false
    for a server of another machine: then this one's GPUs say nothing of it.
    """
    command = [sys.executable, "-m", "bench_client.run.telemetry", str(path)]
    command += [f"{name}={pid}" for name, pid in trees.items()]
    command += [] if here else ["--elsewhere"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        yield lambda name: _mark(process, name)
    finally:
        _end(process)


def _mark(process: "subprocess.Popen[bytes]", name: str) -> None:
    """Returns when the GPUs have been read. A sampler that has ended, or hangs, is let be."""
    if process.stdin is None or process.stdout is None:
        return
    with contextlib.suppress(BrokenPipeError):
        os.write(process.stdin.fileno(), f"{name}\n".encode())
        if select.select([process.stdout], [], [], PATIENCE_S)[0]:
            os.read(process.stdout.fileno(), 1)


def _end(process: "subprocess.Popen[bytes]") -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe:
            pipe.close()
    try:
        process.wait(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Sampler:
    """Reads one row at a time; holds what rates are computed from. `gpus`: null for a server of
    another machine.
    """

    def __init__(self, trees: Mapping[str, int], gpus: Gpus | None) -> None:
        self._trees = trees
        self._known: dict[int, psutil.Process] = {}
        self._gpus = gpus
        psutil.cpu_percent()

    def row(self) -> dict[str, Any]:
        """CPU and memory of the machine and of each tree, and each GPU's own sensors."""
        found = self.gpu_row()
        found["machine"] = {
            "cpu_percent": psutil.cpu_percent(),
            "memory_used_gib": _gib(psutil.virtual_memory().used),
        }
        for name, members in self._members().items():
            found[name] = _used(members)
        # A server that is here and not known would be taken for a stranger, and so would one in the
        # container beside this one.
        if "server" in self._trees or (self._gpus is None and not in_container()):
            ours = sum(found[name]["cpu_percent"] for name in self._trees)
            other = found["machine"]["cpu_percent"] - ours / (psutil.cpu_count() or 1)
            found["machine"]["other_cpu_percent"] = round(max(other, 0.0), 1)
        return found

    def gpu_row(self) -> dict[str, Any]:
        """The GPUs alone. Its time is that at which their energy was read, before all else."""
        found: dict[str, Any] = {"at_unix_ns": time.time_ns()}
        gpus = self._gpus.drawn() if self._gpus else {}
        if not self._gpus or not gpus:
            return found
        root = self._trees.get("server")
        server = None if root is None else {each.pid for each in self._below(root)}
        for rows in (self._gpus.state(), self._gpus.processes(server)):
            for name, row in rows.items():
                gpus[name] |= row
        return {**found, "gpu": gpus}

    def _members(self) -> dict[str, list[psutil.Process]]:
        """The processes of each tree. One below two roots, as a launched server is, counts once."""
        whole = {
            name: {each.pid: each for each in self._below(pid)} for name, pid in self._trees.items()
        }
        members = {}
        for name, tree in whole.items():
            nearer = self._nearer(name, whole)
            members[name] = [each for pid, each in tree.items() if pid not in nearer]
        return members

    def _nearer(self, name: str, whole: Mapping[str, Mapping[int, psutil.Process]]) -> set[int]:
        """Pids of the trees whose roots are below that of tree `name`."""
        below = whole[name].keys() - {self._trees[name]}
        inside = [other for other, root in self._trees.items() if root in below]
        return {pid for other in inside for pid in whole[other]}

    def _below(self, pid: int) -> Sequence[psutil.Process]:
        try:
            root = self._known.setdefault(pid, psutil.Process(pid))
            below = root.children(recursive=True)
        except psutil.Error:
            return ()
        # The same objects again: cpu_percent counts from an object's last call.
        return [root, *(self._known.setdefault(each.pid, each) for each in below)]


def _used(processes: Sequence[psutil.Process]) -> dict[str, float]:
    """CPU (100 is one core) and resident memory of all of them."""
    cpu = resident = 0.0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            cpu += process.cpu_percent()
            resident += process.memory_info().rss
    return {"cpu_percent": round(cpu, 1), "memory_gib": _gib(resident)}


def _gib(amount: float) -> float:
    return round(amount / 2**30, 3)


def _instants() -> Iterator[str]:
    """An empty word every second, and each word of standard input as it comes; ends with it."""
    due = time.monotonic() + INTERVAL_S
    while True:
        if select.select([sys.stdin], [], [], max(due - time.monotonic(), 0.0))[0]:
            words = os.read(sys.stdin.fileno(), 256)
            if not words:
                return
            yield from words.decode().split()
        else:
            due += INTERVAL_S
            yield ""


def main(arguments: Sequence[str]) -> None:
    """Sample until standard input closes."""
    path, *rest = arguments
    pairs = (each.partition("=") for each in rest if "=" in each)
    gpus = None if "--elsewhere" in rest else Gpus()
    sampler = Sampler({name: int(pid) for name, _, pid in pairs}, gpus)
    os.nice(10)
    with Path(path).open("ab", buffering=0) as file:
        for mark in _instants():
            row = {**sampler.gpu_row(), "mark": mark} if mark else sampler.row()
            try:
                file.write(msgspec.json.encode(row) + b"\n")
                if mark:
                    os.write(sys.stdout.fileno(), b"\n")
            except OSError:  # a full disk: the client says so, by the first record it cannot write
                return


if __name__ == "__main__":
    main(sys.argv[1:])
