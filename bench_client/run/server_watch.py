"""Notices while a plan runs that its server has died, and ends the run with the reason."""

import asyncio
from collections.abc import Callable

from bench_client.records import RequestRecord

WATCH_S = 0.25
# Connections end before the process that held them has ended and been reaped.
LAST_LOOK_S = 1.0
CUT = frozenset({"connect", "reset", "truncated"})
# In a row, where nobody can tell that the process is dead: it was running already.
REFUSED = 10


class ServerWatch:
    """`lost` names the reason once the server is dead. Records go through here to `keep`."""

    def __init__(
        self, lost: Callable[[], str | None], keep: Callable[[RequestRecord], None]
    ) -> None:
        self._lost = lost
        self._keep = keep
        self._cut = False
        self._refused = 0
        self.reason: str | None = None

    def record(self, record: RequestRecord) -> None:
        """A request has ended, maybe because the server has."""
        kind = record.failure.kind if record.failure else None
        self._cut = self._cut or kind in CUT
        self._refused = self._refused + 1 if kind == "connect" else 0
        self._keep(record)

    async def run(self, stop: Callable[[], None]) -> None:
        """Watch until the server is lost, then stop the run."""
        while self.reason is None:
            await asyncio.sleep(WATCH_S)
            self.reason = self._found()
        stop()

    async def last_look(self) -> str | None:
        """The reason after all requests have ended; waits a little where some were cut off."""
        now = asyncio.get_running_loop().time
        deadline = now() + LAST_LOOK_S
        while self.reason is None and self._cut and now() < deadline:
            await asyncio.sleep(WATCH_S / 10)
            self.reason = self._found()
        return self.reason

    def _found(self) -> str | None:
        refused = f"it refused {self._refused} connections in a row"
        return self._lost() or (refused if self._refused >= REFUSED else None)
