"""Samples of the machine while a run is measured, by a process of its own: off the hot path.

`python -m bench_client.run.telemetry FILE` appends a JSON line to FILE every second until its
standard input closes, which it does in whatever way its parent ends. What a machine does not have
is left out. Fields are named with their units.
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

INTERVAL_S = 1.0


@contextlib.contextmanager
def sampling(path: Path, trees: Mapping[str, int]) -> Iterator[None]:
    """Sample into `path` while the context lasts. `trees`: names (client, server) of root pids."""
    command = [sys.executable, "-m", "bench_client.run.telemetry", str(path)]
    command += [f"{name}={pid}" for name, pid in trees.items()]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        if process.stdin:
            process.stdin.close()
        try:
            process.wait(timeout=5 * INTERVAL_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Sampler:
    """Reads one row at a time; holds what rates are computed from."""

    def __init__(self, trees: Mapping[str, int]) -> None:
        self._trees = trees
        self._known: dict[int, psutil.Process] = {}
        self._gpus = _open_gpus()
        psutil.cpu_percent()

    def row(self) -> dict[str, Any]:
        """CPU and memory of the machine and of each tree, and each GPU's own sensors."""
        found: dict[str, Any] = {"at_unix_ns": time.time_ns()}
        found["machine"] = {
            "cpu_percent": psutil.cpu_percent(),
            "memory_used_gib": _gib(psutil.virtual_memory().used),
        }
        for name, pid in self._trees.items():
            found[name] = self._tree(pid)
        if "server" in self._trees:  # else the server's own load may be in it
            ours = sum(found[name]["cpu_percent"] for name in self._trees)
            other = found["machine"]["cpu_percent"] - ours / (psutil.cpu_count() or 1)
            found["machine"]["other_cpu_percent"] = round(max(other, 0.0), 1)
        if self._gpus:
            found["gpu"] = {str(index): gpu_row(gpu) for index, gpu in enumerate(self._gpus)}
        return found

    def _tree(self, pid: int) -> dict[str, float]:
        """CPU (100 is one core) and resident memory of a process and all below it."""
        cpu = resident = 0.0
        for process in self._below(pid):
            with contextlib.suppress(psutil.Error):
                cpu += process.cpu_percent()
                resident += process.memory_info().rss
        return {"cpu_percent": round(cpu, 1), "memory_gib": _gib(resident)}

    def _below(self, pid: int) -> Sequence[psutil.Process]:
        try:
            root = self._known.setdefault(pid, psutil.Process(pid))
            below = root.children(recursive=True)
        except psutil.Error:
            return ()
        # The same objects again: cpu_percent counts from an object's last call.
        return [root, *(self._known.setdefault(each.pid, each) for each in below)]


def gpu_row(gpu: Any) -> dict[str, Any]:
    """One GPU's sensors by NVML; those it does not have are left out."""
    import pynvml  # noqa: PLC0415 (only where there is a GPU)

    queries: dict[str, Callable[[], Any]] = {
        "memory_used_gib": lambda: _gib(pynvml.nvmlDeviceGetMemoryInfo(gpu).used),
        "utilisation_percent": lambda: pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu,
        "power_w": lambda: pynvml.nvmlDeviceGetPowerUsage(gpu) / 1e3,
        "energy_j": lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1e3,
        "sm_clock_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM),
        "memory_clock_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_MEM),
        "temperature_c": lambda: pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU),
        "throttle_reasons": lambda: pynvml.nvmlDeviceGetCurrentClocksEventReasons(gpu),
        "processes": lambda: len(pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)),
    }
    found: dict[str, Any] = {}
    for name, query in queries.items():
        with contextlib.suppress(pynvml.NVMLError):
            found[name] = query()
    return found


def _open_gpus() -> list[Any]:
    import pynvml  # noqa: PLC0415 (loads a driver library)

    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        return [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
    except pynvml.NVMLError:
        return []


def _gib(amount: float) -> float:
    return round(amount / 2**30, 3)


def main(arguments: Sequence[str]) -> None:
    """Sample until standard input closes."""
    path, *pairs = arguments
    sampler = Sampler({name: int(pid) for name, _, pid in (pair.partition("=") for pair in pairs)})
    os.nice(10)
    due = time.monotonic()
    with Path(path).open("ab", buffering=0) as file:
        while True:
            due += INTERVAL_S
            if select.select([sys.stdin], [], [], max(due - time.monotonic(), 0.0))[0]:
                return
            try:
                file.write(msgspec.json.encode(sampler.row()) + b"\n")
            except OSError:  # a full disk: the client says so, by the first record it cannot write
                return


if __name__ == "__main__":
    main(sys.argv[1:])
