"""Holds a server on a leash: when the client ends, in any way, so does the server's whole tree.

Run by process.py as a process of its own, standard library only:

    python guard.py LOG GRACE_S -- ARGV...

Its stdin is a pipe that the client holds: end of file there, SIGTERM, or a new parent means stop.
It starts the server in a session of its own (so that Ctrl-C reaches neither), writes the server's
output to LOG, and is the subreaper of all that the server starts: a process that leaves the group,
or whose parent dies, is still a descendant and is found (Linux). It reports on stdout, one JSON
object a line: `{"pid"}`, then `{"returncode"}` as soon as the server ends, then `{"left": [pids]}`
once its tree has; or `{"error"}`.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
STRAGGLERS_S = 2.0  # for what outlives a server that has ended
KILL_S = 10.0  # a process in the driver's hands may not die at once
POLL_S = 1.0  # signals wake the loop earlier


def main(arguments: list[str]) -> int:
    """Start, watch, clean up. Returns the server's code as a shell would."""
    log, grace, dashes, *argv = arguments
    if dashes != "--" or not argv:
        raise SystemExit("usage: guard.py LOG GRACE_S -- ARGV...")
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake = _wake_on_signals()
    try:
        with Path(log).open("ab") as output:
            server = Server(argv, output.fileno())
    except OSError as error:
        _report(error=f"{error.strerror}: {error.filename or argv[0]}")
        return 2
    _report(pid=server.pid)
    _watch(server, wake)
    left = _end(server, float(grace))
    _report(left=left)
    code = server.returncode
    return 1 if code is None else code if code >= 0 else 128 - code


class Server:
    """The server's process, reaped here together with every orphan of its tree."""

    def __init__(self, argv: list[str], output: int) -> None:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 (one thread)
        )
        self.pid = process.pid
        self.returncode: int | None = None
        self._process = process

    def reap(self) -> None:
        """Collect every child that has ended; report the server's own end at once."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.pid:
                self.returncode = os.waitstatus_to_exitcode(status)
                self._process.returncode = self.returncode
                _report(returncode=self.returncode)

    def signal_group(self, number: int) -> None:
        """To the server's group; nothing if it is gone."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def _watch(server: Server, wake: int) -> None:
    """Until the server ends or the client does."""
    parent = os.getppid()
    while True:
        server.reap()
        if server.returncode is not None or STOP:
            return
        ready, _, _ = select.select([sys.stdin.fileno(), wake], [], [], POLL_S)
        if wake in ready:
            os.read(wake, 4096)
        if sys.stdin.fileno() in ready and not os.read(sys.stdin.fileno(), 4096):
            return
        # A forked child of the client may still hold the pipe after the client was killed.
        if os.getppid() != parent:
            return


def _end(server: Server, grace_s: float) -> list[int]:
    """SIGTERM, patience, SIGKILL; returns the processes that even that left alive."""
    deadline = time.monotonic() + grace_s
    if server.returncode is None:
        server.signal_group(signal.SIGTERM)
        _wait(server, deadline, lambda: server.returncode is not None)
    if server.returncode is not None:
        _signal_tree(signal.SIGTERM)
        _wait(server, min(deadline, time.monotonic() + STRAGGLERS_S), lambda: not descendants())
    deadline = time.monotonic() + KILL_S
    while time.monotonic() < deadline:
        server.signal_group(signal.SIGKILL)
        _signal_tree(signal.SIGKILL)  # again and again: some may be forking meanwhile
        server.reap()
        if server.returncode is not None and not descendants():
            return []
        time.sleep(0.02)
    return sorted(descendants())


def _wait(server: Server, deadline: float, done: Callable[[], bool]) -> None:
    while time.monotonic() < deadline:
        server.reap()
        if done():
            return
        time.sleep(0.02)


def descendants() -> set[int]:
    """Every process below this one, zombies too, from /proc; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(entry.read_text(errors="replace").rpartition(")")[2].split()[1])
        except OSError:
            continue  # it ended meanwhile
        children.setdefault(parent, []).append(int(entry.parent.name))
    found: set[int] = set()
    todo = [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found.update(below)
        todo += below
    return found


def _signal_tree(number: int) -> None:
    for pid in descendants():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


STOP: list[int] = []  # signals that ask for the end


def _wake_on_signals() -> int:
    """A descriptor that turns readable with each signal that matters."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGHUP):  # a handler, for the server inherits SIG_IGN
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: STOP.append(number))
    return readable


def _die_with_parent() -> None:
    """For the case that this guard itself is killed."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _report(**facts: object) -> None:
    """To the client, if it still listens."""
    with contextlib.suppress(OSError):
        os.write(sys.stdout.fileno(), json.dumps(facts).encode() + b"\n")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    raise SystemExit(main(sys.argv[1:]))
