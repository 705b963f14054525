"""The machine, as far as it bears on the figures. What is absent is absent."""

import os
import platform
from pathlib import Path
from typing import Any

import psutil

CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))


def describe_machine() -> dict[str, Any]:
    """Host, CPU, memory and, where NVML finds one, each GPU."""
    return {
        "host": platform.node(),
        "os": platform.platform(),
        "cpu": _cpu_name(),
        "cores": len(psutil.Process().cpu_affinity() or ()) or os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "load_1m": round(os.getloadavg()[0], 2),
        "gpus": describe_gpus(),
    }


def in_container() -> bool:
    """Whether this process sees a machine that is not all its own: servers beside it, say."""
    return any(mark.exists() for mark in CONTAINER_MARKS)


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().split("\n"):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def describe_gpus() -> list[dict[str, Any]]:
    """Name, driver, memory and clocks of each GPU; empty without NVML."""
    import pynvml  # noqa: PLC0415 (loads a driver library)

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        driver = pynvml.nvmlSystemGetDriverVersion()
        count = pynvml.nvmlDeviceGetCount()
        return [_gpu(pynvml, index, driver) for index in range(count)]
    except pynvml.NVMLError:
        return []
    finally:
        pynvml.nvmlShutdown()


def _gpu(nvml: Any, index: int, driver: str) -> dict[str, Any]:
    device = nvml.nvmlDeviceGetHandleByIndex(index)

    def ask(query: Any, *more: Any) -> Any:
        try:
            return query(device, *more)
        except nvml.NVMLError:
            return None

    memory = ask(nvml.nvmlDeviceGetMemoryInfo)
    return {
        "name": ask(nvml.nvmlDeviceGetName),
        "driver": driver,
        "memory_gib": round(memory.total / 2**30, 1) if memory else None,
        "memory_used_gib": round(memory.used / 2**30, 1) if memory else None,
        "sm_clock_mhz": ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
        "sm_clock_max_mhz": ask(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM),
        "power_limit_w": _watts(ask(nvml.nvmlDeviceGetEnforcedPowerLimit)),
    }


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1e3
