"""What NVML says of the GPUs. No GPU and no driver are an empty answer, not an error."""

import pynvml
from msgspec import Struct


class Gpu(Struct, frozen=True, kw_only=True):
    """One GPU; memory in bytes."""

    name: str
    driver: str
    used: int
    total: int


def gpus() -> tuple[Gpu, ...]:
    """Every GPU that NVML shows, in its order."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        driver = str(pynvml.nvmlSystemGetDriverVersion())
        return tuple(_read(index, driver) for index in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError:
        return ()
    finally:
        pynvml.nvmlShutdown()


def _read(index: int, driver: str) -> Gpu:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return Gpu(
        name=str(pynvml.nvmlDeviceGetName(handle)),
        driver=driver,
        used=int(memory.used),
        total=int(memory.total),
    )
