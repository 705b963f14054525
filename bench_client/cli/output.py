"""Standard output and error that outlive their readers."""

import errno
import io
import os
import sys
from pathlib import Path
from typing import Any, TextIO

import click

from bench_client.cli.errors import INVALID


class _Output(io.FileIO):
    """What cannot be written is dropped: a run and its exit code do not hang on `| head`."""

    failed: OSError | None = None

    def write(self, data: Any) -> int:
        """All of it is taken, whatever becomes of it."""
        if self.failed is None:
            try:
                return super().write(data)
            except OSError as error:
                self.failed = error
        return len(data)


def outlive_readers() -> None:
    """Set up both streams. Where one is closed, nothing is shown there."""
    sys.stdout = _outliving(sys.stdout, 1)
    sys.stderr = _outliving(sys.stderr, 2)


def _outliving(stream: TextIO | None, number: int) -> TextIO:
    if stream is None:
        return Path(os.devnull).open("w", encoding="utf-8")
    if not any(stream is own for own in (sys.__stdout__, sys.__stderr__)):  # a test's
        return stream
    raw = _Output(number, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors="backslashreplace",  # a terminal's encoding may lack a letter of a prompt
        line_buffering=number == 2 or raw.isatty(),
    )


def code_after_output(code: Any) -> Any:
    """The exit code, once all is written: 1 at least where that was not possible.

    A reader that wanted no more, such as `head`, is none of our business.
    """
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    failed = raw.failed if isinstance(raw, _Output) else None
    if failed is None or failed.errno == errno.EPIPE:
        return code
    click.echo(f"bench-client: cannot write to standard output: {failed.strerror}", err=True)
    return code or INVALID
