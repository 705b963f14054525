"""Ctrl-C and SIGTERM while something is measured: the first keeps everything, the second waits for
nothing.
"""

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# One order to stop may come more than once: Slurm signals every process of a job, and a script
# among them hands on what it got. A person is slower.
SAME_S = 0.5


class StopAtOnce(KeyboardInterrupt):
    """The second signal: no report, and no waiting for a server, whose guard sees to its end."""


class Signals:
    """What the signals do to the task that made this, and how many came.

    `first` is called by the first one; while it is null there is nothing to keep, and the task is
    cancelled, as it is by the second.
    """

    def __init__(self) -> None:
        self.first: Callable[[], None] | None = None
        self.came = 0
        self._first_s = float("-inf")
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()

    def arrived(self, _number: int, _frame: FrameType | None) -> None:
        """One has come, in the middle of anything: acted upon when the loop is free."""
        if self._same():
            return
        if self.came == 0:
            self._first_s = time.monotonic()
        self.came += 1
        self._loop.call_soon_threadsafe(self._act)

    def at_once(self, _number: int, _frame: FrameType | None) -> None:
        """Another has come after the task that the first one ended."""
        if not self._same():
            raise StopAtOnce

    def _same(self) -> bool:
        return time.monotonic() - self._first_s < SAME_S

    def _act(self) -> None:
        if self.came == 1 and self.first:
            self.first()
        elif self._task:
            self._task.cancel()


@contextmanager
def signals() -> Iterator[Signals]:
    """Handle them while this lasts; any that comes later, if one came before, is StopAtOnce.

    Raises:
        KeyboardInterrupt: the task was cancelled by a signal; StopAtOnce, by the second.
    """
    found = Signals()
    before = {each: signal.signal(each, found.arrived) for each in (signal.SIGINT, signal.SIGTERM)}
    cancelled = False
    try:
        yield found
    except asyncio.CancelledError:
        if not found.came:
            raise
        cancelled = True
    finally:
        for number, handler in before.items():
            signal.signal(number, found.at_once if found.came else handler)
    if found.came > 1:
        raise StopAtOnce
    if cancelled:
        raise KeyboardInterrupt
