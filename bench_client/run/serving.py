"""An arm's server: launched for each block of repeats, ended after it, and what that left."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench_client.run.interrupts import StopAtOnce
from bench_client.run.options import Arm, Observer
from server_launchers.process import ServerProcess


class Serving:
    """One arm's launches. `left` collects, a line each, what their teardowns left behind."""

    def __init__(self, arm: Arm, observer: Observer) -> None:
        self._arm = arm
        self._observer = observer
        self._last: ServerProcess | None = None
        self.left: tuple[str, ...] = ()

    @contextmanager
    def launched(self, log: Path) -> Iterator[ServerProcess | None]:
        """The server, up, and torn down in the end. Null where it was running already."""
        if self._arm.command is None:
            yield None
            return
        self._observer.phase(f"launching {self._arm.name}")
        process = ServerProcess.start(self._arm.command, log)
        try:
            process.wait_ready()
            yield process
        except StopAtOnce:  # the server's guard ends it once this process is gone
            raise
        except BaseException:
            self._stop(process)
            raise
        self._stop(process)

    def held(self) -> str | None:
        """What the last server still holds now: nothing else can be measured beside it."""
        left = self._last.left_behind() if self._last else ()
        return "; ".join(left) or None

    def _stop(self, process: ServerProcess) -> None:
        self._observer.phase(f"stopping {process.command.name}")
        self._last = process
        self.left = tuple(dict.fromkeys((*self.left, *process.stop().warnings)))
