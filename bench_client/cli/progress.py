"""Shows how a run goes on stderr: one line that renews itself, or a line now and then in a log."""

import time
from types import TracebackType
from typing import Self, TextIO

from bench_client.records import RequestRecord
from bench_client.report.progress import Progress, progress_line

_LOG_EVERY_S = 10.0


class Silent:
    """Shows nothing, but knows what is being done.

    `noted` is what was being done when `note` was called; null while requests are measured, which
    `interrupted` tells of.
    """

    def __init__(self) -> None:
        self._doing: str | None = None
        self.noted: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def note(self) -> None:
        """A signal has come."""
        self.noted = self._doing

    def reporting(self) -> None:
        """All is measured."""
        self._doing = "the reports were written"

    def phase(self, text: str) -> None:
        """What is being waited for."""
        self._doing = text

    def begin(self, arm: str, total: int) -> None:
        """The clock starts."""
        self._doing = None

    def record(self, record: RequestRecord) -> None:
        """Nothing."""

    def interrupted(self) -> None:
        """Nothing."""


class ProgressLine(Silent):
    """An arm's block as it goes. Prints between requests, never while one is measured alone."""

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self._out = out
        self._live = out.isatty()
        self._arm = ""
        self._total = self._ok = self._failed = self._tokens = 0
        self._began = self._shown = 0.0

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._show("")

    def phase(self, text: str) -> None:
        """What is being waited for."""
        super().phase(text)
        self._show(f"{text} ...")

    def begin(self, arm: str, total: int) -> None:
        """The clock starts."""
        super().begin(arm, total)
        self._arm, self._total = arm, total
        self._ok = self._failed = self._tokens = 0
        self._began = time.monotonic()
        self._update(force=True)

    def record(self, record: RequestRecord) -> None:
        """A request has ended."""
        if record.outcome == "ok":
            self._ok += 1
        else:
            self._failed += 1
        self._tokens += record.output_tokens or 0
        self._update(force=self._ok + self._failed == self._total)

    def interrupted(self) -> None:
        """The records so far are kept."""
        self._show("interrupted: keeping what was measured (once more to stop at once)")

    def _update(self, *, force: bool) -> None:
        now = time.monotonic()
        if not (self._live or force or now - self._shown > _LOG_EVERY_S):
            return
        self._shown = now
        ended = self._ok + self._failed
        elapsed = now - self._began
        self._show(
            progress_line(
                Progress(
                    name=self._arm,
                    total=self._total,
                    started=min(ended + 1, self._total),
                    ok=self._ok,
                    failed=self._failed,
                    output_tokens=self._tokens,
                    elapsed_s=elapsed,
                    last_end_s=elapsed if ended else None,
                )
            )
        )

    def _show(self, line: str) -> None:
        if self._live:
            self._out.write(f"\r\x1b[K{line}")
        elif line:
            self._out.write(line + "\n")
        self._out.flush()
