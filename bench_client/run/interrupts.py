"""Ctrl-C and SIGTERM: the first order to stop keeps everything, the second waits for nothing."""

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# One order to stop may come more than once: Slurm signals every process of a job, and a script
# among them hands on what it got. A person is slower.
SAME_S = 0.5

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class StopAtOnce(KeyboardInterrupt):
    """The second signal: no report, and no waiting for a server, whose guard sees to its end."""


class Orders:
    """The orders to stop that came, at whatever stage.

    `noted` is called by the first one. While `deferred`, that is all that it does: what is being
    done ends first, and the next order is StopAtOnce.
    """

    def __init__(self, noted: Callable[[], None] = lambda: None) -> None:
        self.came = 0
        self.deferred = False
        self._noted = noted
        self._first_s = float("-inf")

    def new(self) -> bool:
        """One has come: whether it is an order of its own, not the first one over again."""
        now = time.monotonic()
        if now - self._first_s < SAME_S:
            return False
        self.came += 1
        if self.came == 1:
            self._first_s = now
            self._noted()
        return True

    def arrived(self, _number: int, _frame: FrameType | None) -> None:
        """The handler where no loop runs."""
        if not self.new():
            return
        if self.came > 1:
            raise StopAtOnce
        if not self.deferred:
            raise KeyboardInterrupt


class Signals:
    """What the orders do to the task that made this, and how many came.

    `first` is called by the first one; while it is null there is nothing to keep, and the task is
    cancelled, as it is by the second.
    """

    def __init__(self, orders: Orders) -> None:
        self.first: Callable[[], None] | None = None
        self._orders = orders
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()

    @property
    def came(self) -> int:
        """How many orders."""
        return self._orders.came

    def arrived(self, _number: int, _frame: FrameType | None) -> None:
        """One has come, in the middle of anything: acted upon when the loop is free."""
        if self._orders.new():
            self._loop.call_soon_threadsafe(self._act)

    def _act(self) -> None:
        if self.came == 1 and self.first:
            self.first()
        elif self._task:
            self._task.cancel()


@contextmanager
def interruptible(noted: Callable[[], None] = lambda: None) -> Iterator[Orders]:
    """Both signals are orders while this lasts: KeyboardInterrupt, then StopAtOnce."""
    orders = Orders(noted)
    before = {each: signal.signal(each, orders.arrived) for each in _NUMBERS}
    try:
        yield orders
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def signals() -> Iterator[Signals]:
    """Handle them on the running loop while this lasts, as part of `interruptible` around it.

    Any that comes later, if one came before, is StopAtOnce.

    Raises:
        KeyboardInterrupt: the task was cancelled by a signal; StopAtOnce, by the second.
    """
    orders = _around() or Orders()
    found = Signals(orders)
    before = {each: signal.signal(each, found.arrived) for each in _NUMBERS}
    cancelled = False
    try:
        yield found
    except asyncio.CancelledError:
        if not found.came:
            raise
        cancelled = True
    finally:
        for number, handler in before.items():
            signal.signal(number, orders.arrived if found.came else handler)
    if found.came > 1:
        raise StopAtOnce
    if cancelled:
        raise KeyboardInterrupt


def _around() -> Orders | None:
    """Those of the `interruptible` that this is in."""
    owner = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
    return owner if isinstance(owner, Orders) else None
