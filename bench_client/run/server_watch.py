"""Notices while a plan runs that its server has died, and ends the run with the reason."""

import asyncio
from collections.abc import Callable

from bench_client.records import RequestRecord

WATCH_S = 0.25
# Connections end before the process that held them has ended and been reaped.
LAST_LOOK_S = 1.0
CUT = frozenset({"connect", "reset", "truncated"})


class ServerWatch:
    """`lost` names the reason once the server is dead. Records go through here to `keep`."""

    def __init__(
        self, lost: Callable[[], str | None], keep: Callable[[RequestRecord], None]
    ) -> None:
        self._lost = lost
        self._keep = keep
        self._cut = False
        self.reason: str | None = None

    def record(self, record: RequestRecord) -> None:
        """A request has ended, maybe because the server has."""
        self._cut = self._cut or (record.failure is not None and record.failure.kind in CUT)
        self._keep(record)

    async def run(self, stop: Callable[[], None]) -> None:
        """Watch until the server is lost, then stop the run."""
        while self.reason is None:
            await asyncio.sleep(WATCH_S)
            self.reason = self._lost()
        stop()

    async def last_look(self) -> str | None:
        """The reason after all requests have ended; waits a little where some were cut off."""
        now = asyncio.get_running_loop().time
        deadline = now() + LAST_LOOK_S
        while self.reason is None and self._cut and now() < deadline:
            await asyncio.sleep(WATCH_S / 10)
            self.reason = self._lost()
        return self.reason
