"""A server's log: claimed by one server at a time, read from its end."""

import fcntl
from pathlib import Path
from typing import IO


def claimed(log: Path) -> IO[bytes]:
    """The log, claimed as long as it is open. BlockingIOError if another server has it.

    A file system without locks has none to respect.
    """
    file = log.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise
    except OSError:
        pass
    return file


def tail(log: Path, size: int) -> str:
    """The last `size` bytes."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - size))
        return file.read().decode("utf-8", "replace")


def last_line(log: Path) -> str:
    """The newest line: what the server is busy with."""
    lines = tail(log, 4096).replace("\r", "\n").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
