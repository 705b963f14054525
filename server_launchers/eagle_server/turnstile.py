"""One at a time, in the order of arrival."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

POLL_S = 0.1  # how long a client that left may keep its place


class ClientLeftError(Exception):
    """The client closed its connection before its answer had ended."""


class Turnstile:
    """Unlike a Lock it is fair, and one can leave the queue."""

    def __init__(self) -> None:
        self._queue: deque[object] = deque()
        self._moved = threading.Condition()

    @contextmanager
    def turn(self, left: Callable[[], bool]) -> Iterator[None]:
        """Wait for one's turn and hold it. Raises ClientLeftError once `left()` is true."""
        place = object()
        with self._moved:
            self._queue.append(place)
        try:
            with self._moved:
                while self._queue[0] is not place:
                    self._moved.wait(POLL_S)
                    if left():
                        raise ClientLeftError
            yield
        finally:
            with self._moved:
                self._queue.remove(place)
                self._moved.notify_all()
