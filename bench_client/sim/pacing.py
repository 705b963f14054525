"""When tokens come: drivers that turn a model of time into calls of `Answer.emit`.

Every due time is absolute, so that lateness never accumulates; what really happened is in the send
log.
"""

import asyncio
import select
import selectors
from collections import deque
from collections.abc import Callable
from time import time_ns

from .answers import Answer
from .engine import Counters, Engine, Step
from .sequence import Sequence

Observer = Callable[[Step, list[tuple[Sequence, int]], int], None]


class PreciseSelector(selectors.EpollSelector):
    """An epoll whose timeouts are not rounded up to whole milliseconds."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As in selectors.BaseSelector."""
        if timeout is not None and timeout > 0:
            select.select([self.fileno()], (), (), timeout)  # counts in microseconds
            timeout = 0
        return super().select(timeout)


class _Alarm:
    """Calls `ring` at the earliest instant asked for (CLOCK_REALTIME, ns)."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._due_ns = 0
        self._handle: asyncio.TimerHandle | None = None

    def set(self, due_ns: int) -> None:
        if self._handle:
            if self._due_ns <= due_ns:
                return
            self._handle.cancel()
        self._due_ns = due_ns
        self._handle = self._loop.call_later((due_ns - time_ns()) / 1e9, self._fire)

    def _fire(self) -> None:
        self._handle = None
        self._ring()


class FixedPacer:
    """Each stream on its own: the first token `ttft_ns` after receipt, one more every `itl_ns`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, counters: Counters, ttft_ns: int, itl_ns: int
    ) -> None:
        self._counters = counters
        self._ttft_ns = ttft_ns
        self._itl_ns = itl_ns
        # All waits are equal within each queue, so that both stay in order of `due_ns`.
        self._first: deque[Answer] = deque()
        self._next: deque[Answer] = deque()
        self._alarm = _Alarm(loop, self._ring)

    def add(self, answer: Answer) -> None:
        """Start an answer's tokens."""
        self._counters.prompt_tokens += len(answer.sequence.prompt.tokens)
        answer.due_ns = answer.entry.received_ns + self._ttft_ns
        self._first.append(answer)
        self._alarm.set(self._first[0].due_ns)

    def remove(self, answer: Answer) -> None:
        """Stop; the queue forgets the answer when it comes up."""
        self._counters.leave(answer.sequence)

    def _ring(self) -> None:
        now, sent = time_ns(), 0
        while (queue := self._earliest()) and queue[0].due_ns <= now:
            answer = queue.popleft()
            if answer.ended:
                continue
            sequence = answer.sequence
            sequence.emitted += 1
            if sequence.emitted < sequence.length:
                answer.due_ns += self._itl_ns
                self._next.append(answer)
            sent += 1
            answer.emit(1)
        self._counters.generation_tokens += sent
        if queue:
            self._alarm.set(queue[0].due_ns)

    def _earliest(self) -> deque[Answer]:
        first, later = self._first, self._next
        return first if first and (not later or first[0].due_ns < later[0].due_ns) else later


class EnginePacer:
    """All streams together: the engine's steps, back to back while there is work."""

    def __init__(self, loop: asyncio.AbstractEventLoop, engine: Engine, observe: Observer) -> None:
        self._engine = engine
        self._observe = observe
        self._answers: dict[Sequence, Answer] = {}
        self._step: Step | None = None
        self._due_ns = 0
        self._alarm = _Alarm(loop, self._ring)

    def add(self, answer: Answer) -> None:
        """Queue an answer's sequence; an idle engine starts from the request's arrival."""
        self._answers[answer.sequence] = answer
        self._engine.submit(answer.sequence)
        if self._step is None:
            self._begin(answer.entry.received_ns)

    def remove(self, answer: Answer) -> None:
        """Stop an answer; one that is not complete leaves the batch."""
        del self._answers[answer.sequence]
        self._engine.abort(answer.sequence)

    def _begin(self, at_ns: int) -> None:
        self._step = self._engine.begin()
        if self._step:
            self._due_ns = at_ns + self._step.duration_ns
            self._alarm.set(self._due_ns)

    def _ring(self) -> None:
        step = self._step
        if step is None:
            return
        emissions = self._engine.finish(step)
        for sequence, tokens in emissions:
            if answer := self._answers.get(sequence):
                answer.emit(tokens)
        self._observe(step, emissions, self._due_ns)
        self._begin(self._due_ns)
