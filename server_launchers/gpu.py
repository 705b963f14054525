"""What NVML says of the GPUs. No GPU and no driver are an empty answer, not an error."""

import contextlib
from collections.abc import Sequence, Set
from typing import Any

import psutil
import pynvml
from msgspec import Struct

GIB = 2**30
SLACK = GIB // 2  # what a driver may keep


class Gpu(Struct, frozen=True, kw_only=True):
    """One GPU; memory in bytes. `pids` compute on it, as far as NVML shows them."""

    name: str
    driver: str
    used: int
    total: int
    uuid: str = ""
    pids: tuple[int, ...] = ()


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


def visible(cards: Sequence[Gpu], wanted: str | None) -> set[int]:
    """The indices that CUDA_VISIBLE_DEVICES names: indices, UUIDs or their beginnings.

    All where it is not set, or names MIG slices, whose GPU it does not tell.
    """
    if wanted is None or "MIG-" in wanted:
        return set(range(len(cards)))
    names = [name.strip() for name in wanted.split(",")]
    return {
        index
        for index, card in enumerate(cards)
        for name in names
        if name == str(index) or (name.startswith("GPU-") and card.uuid.startswith(name))
    }


class MemoryWatch:
    """Whether one server gives back the memory of its GPUs. The others are not its business."""

    def __init__(self, visible_devices: str | None) -> None:
        """Call it before the server starts. `visible_devices` is its CUDA_VISIBLE_DEVICES."""
        self._before = gpus()
        self._visible = visible(self._before, visible_devices)
        self._seen: set[int] = set()

    def look(self, pids: Set[int]) -> None:
        """Take note of the GPUs that these processes of the server compute on.

        In a container NVML shows none; then all that the server could see count as its own.
        """
        self._seen |= {index for index, card in enumerate(gpus()) if pids & {*card.pids}}

    def held(self) -> list[str]:
        """A line for each of its GPUs that has more in use than before."""
        now = gpus()
        return [
            f"GPU {index} has {(now[index].used - before.used) / GIB:.1f} GiB more in use than"
            f" before{_holders(now[index].pids)}"
            for index, before in enumerate(self._before[: len(now)])
            if index in (self._seen or self._visible) and now[index].used > before.used + SLACK
        ]


def _holders(pids: tuple[int, ...]) -> str:
    """`, by pid 4242 (python3)`; of another user's process or container the number alone."""
    found = []
    for pid in pids:
        try:
            found.append(f"pid {pid} ({psutil.Process(pid).name()})")
        except psutil.Error:
            found.append(f"pid {pid}")
    return f", by {', '.join(found)}" if found else ""


def _read(index: int, driver: str) -> Gpu:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    uuid = ""
    pids: tuple[int, ...] = ()
    with contextlib.suppress(pynvml.NVMLError):
        uuid = str(pynvml.nvmlDeviceGetUUID(handle))
    with contextlib.suppress(pynvml.NVMLError):
        pids = _pids(handle)
    return Gpu(
        name=str(pynvml.nvmlDeviceGetName(handle)),
        driver=driver,
        used=int(memory.used),
        total=int(memory.total),
        uuid=uuid,
        pids=pids,
    )


def _pids(handle: Any) -> tuple[int, ...]:
    return tuple(int(each.pid) for each in pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
