"""What NVML's sensors say of each GPU, and who computes on it. No GPU is an empty answer."""

import contextlib
from collections.abc import Callable, Collection
from typing import Any

import psutil

Row = dict[str, Any]


class Gpus:
    """Every GPU that NVML shows, by its index."""

    def __init__(self) -> None:
        import pynvml  # noqa: PLC0415 (loads a driver library)

        self._nvml = pynvml
        self._devices: list[Any] = []
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlInit()
            count = pynvml.nvmlDeviceGetCount()
            self._devices = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]

    def drawn(self) -> dict[str, Row]:
        """Energy since the driver was loaded and present power, read in the least time."""
        nvml = self._nvml
        return self._each(
            {
                "energy_j": lambda gpu: nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1e3,
                "power_w": lambda gpu: nvml.nvmlDeviceGetPowerUsage(gpu) / 1e3,
            }
        )

    def state(self) -> dict[str, Row]:
        """Memory, utilisation, clocks, temperature; `throttle_reasons` is NVML's bit mask."""
        nvml = self._nvml
        return self._each(
            {
                "memory_used_gib": lambda gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).used / 2**30,
                "utilisation_percent": lambda gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu,
                "sm_clock_mhz": lambda gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM),
                "memory_clock_mhz": lambda gpu: nvml.nvmlDeviceGetClockInfo(
                    gpu, nvml.NVML_CLOCK_MEM
                ),
                "temperature_c": lambda gpu: nvml.nvmlDeviceGetTemperature(
                    gpu, nvml.NVML_TEMPERATURE_GPU
                ),
                "throttle_reasons": nvml.nvmlDeviceGetCurrentClocksEventReasons,
            }
        )

    def processes(self, server: Collection[int] | None) -> dict[str, Row]:
        """How many compute on each; the server's (pids in `server`) and the others by name."""

        def found(gpu: Any) -> Row:
            pids = [each.pid for each in self._nvml.nvmlDeviceGetComputeRunningProcesses(gpu)]
            if server is None:
                return {"processes": len(pids)}
            others = [_named(pid) for pid in pids if pid not in server]
            return {
                "processes": len(pids),
                "server_processes": len(pids) - len(others),
                "other_processes": others,
            }

        return {name: row["found"] for name, row in self._each({"found": found}).items() if row}

    def _each(self, queries: dict[str, Callable[[Any], Any]]) -> dict[str, Row]:
        """The answers of every GPU; what it does not have is left out."""
        rows: dict[str, Row] = {str(index): {} for index in range(len(self._devices))}
        for gpu, row in zip(self._devices, rows.values(), strict=True):
            for name, query in queries.items():
                with contextlib.suppress(self._nvml.NVMLError):
                    answer = query(gpu)
                    row[name] = round(answer, 3) if isinstance(answer, float) else answer
        return rows


def _named(pid: int) -> str:
    """`python3 4242`; of another user's process or container the number alone."""
    try:
        return f"{psutil.Process(pid).name()} {pid}"
    except psutil.Error:
        return f"process {pid}"
