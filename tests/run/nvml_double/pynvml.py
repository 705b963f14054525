"""NVML of two GPUs that draw a steady power, for programs that find this before the real one.

NVML_DOUBLE_WATTS is the power of each. On the first computes every process whose command line
holds NVML_DOUBLE_SERVER, on both that of the number NVML_DOUBLE_OTHER. NVML_DOUBLE_LACKS names
functions, parted by commas, that these GPUs do not have. The memory of the first is in use from
when a file is there that NVML_DOUBLE_LEAK, a pattern, matches.
"""

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil

NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0


class NVMLError(Exception):
    pass


def _lacking() -> list[str]:
    return os.environ.get("NVML_DOUBLE_LACKS", "").split(",")


def _watts() -> float:
    return float(os.environ["NVML_DOUBLE_WATTS"])


def _server_pids() -> list[int]:
    told = os.environ.get("NVML_DOUBLE_SERVER")
    lines = ((p.pid, " ".join(p.info["cmdline"] or [])) for p in psutil.process_iter(["cmdline"]))
    return [pid for pid, line in lines if told and told in line]


def _processes(gpu: int) -> list[Any]:
    other = os.environ.get("NVML_DOUBLE_OTHER")
    pids = [*(_server_pids() if gpu == 0 else []), *([int(other)] if other else [])]
    return [SimpleNamespace(pid=pid) for pid in pids]


def _memory(gpu: int) -> SimpleNamespace:
    leaked = gpu == 0 and any(Path().glob(os.environ.get("NVML_DOUBLE_LEAK", "no leak")))
    return SimpleNamespace(total=24 << 30, used=20 << 30 if leaked else 1 << 28)


_ANSWERS: dict[str, Any] = {
    "nvmlInit": lambda: None,
    "nvmlShutdown": lambda: None,
    "nvmlSystemGetDriverVersion": lambda: "580.1",
    "nvmlDeviceGetCount": lambda: 2,
    "nvmlDeviceGetHandleByIndex": lambda index: index,
    "nvmlDeviceGetName": lambda gpu: "double",
    "nvmlDeviceGetUUID": lambda gpu: f"GPU-{gpu}{gpu}",
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetUtilizationRates": lambda gpu: SimpleNamespace(gpu=87),
    "nvmlDeviceGetEnforcedPowerLimit": lambda gpu: 300_000,
    "nvmlDeviceGetPowerUsage": lambda gpu: round(_watts() * 1e3),
    "nvmlDeviceGetTotalEnergyConsumption": lambda gpu: round(_watts() * time.time() * 1e3),
    "nvmlDeviceGetClockInfo": lambda gpu, clock: 1500 * clock,
    "nvmlDeviceGetMaxClockInfo": lambda gpu, clock: 1980,
    "nvmlDeviceGetTemperature": lambda gpu, sensor: 61,
    "nvmlDeviceGetCurrentClocksEventReasons": lambda gpu: 0x4,
    "nvmlDeviceGetComputeRunningProcesses": _processes,
}


def __getattr__(name: str) -> Any:
    if name not in _ANSWERS:
        raise AttributeError(name)

    def call(*arguments: Any) -> Any:
        if name in _lacking():
            raise NVMLError(f"{name}: Not Supported")
        return _ANSWERS[name](*arguments)

    return call
