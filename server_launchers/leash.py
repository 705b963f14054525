"""The client's end of guard.py: starts it, reads its reports, lets go of it."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import psutil

GUARD = Path(__file__).with_name("guard.py")
START_S = 30.0  # for a Python to start on a loaded machine
MARGIN_S = 15.0  # what the guard needs beyond the grace: 2 s for stragglers, 10 s of SIGKILL
LOOPBACK = "127.0.0.1,localhost,::1"


class Leash:
    """A guarded process tree. It ends when this process does, in any way."""

    def __init__(
        self, argv: tuple[str, ...], env: Mapping[str, str], log: Path, grace_s: float
    ) -> None:
        """Start `argv` with `env` added to the environment and its output in `log`."""
        self._grace_s = grace_s
        self._reports: dict[str, Any] = {}
        self._unread = b""
        with log.open("wb") as errors:
            self._guard = subprocess.Popen(
                # By path and with -P: nothing in the working directory shadows what it imports.
                [sys.executable, "-P", str(GUARD), str(log), str(grace_s), "--", *argv],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                env=_environment(env),
            )
        os.set_blocking(_open(self._guard.stdout).fileno(), False)

    def started(self) -> str | None:
        """Wait for the first report: None if the program runs, else why it does not."""
        select.select([_open(self._guard.stdout)], [], [], START_S)
        self._read()
        if "pid" in self._reports:
            return None
        return str(self._reports.get("error", "its guard did not start"))

    def alive(self) -> bool:
        """Whether the main process of the tree still runs."""
        self._read()
        return "returncode" not in self._reports and self._guard.poll() is None

    @property
    def returncode(self) -> int | None:
        """Of the main process, negative for a signal; None while it runs or if unknown."""
        self._read()
        code = self._reports.get("returncode")
        return None if code is None else int(code)

    @property
    def pid(self) -> int:
        """The guard's, the root of the tree."""
        return self._guard.pid

    def pids(self) -> set[int]:
        """The tree as it is now."""
        try:
            return {each.pid for each in psutil.Process(self._guard.pid).children(recursive=True)}
        except psutil.NoSuchProcess:
            return set()

    def end(self) -> list[int] | None:
        """End the tree; bounded. Returns what could not be ended, None if that is unknown."""
        tree = self.pids()
        _open(self._guard.stdin).close()  # the order to end
        try:
            self._guard.wait(self._grace_s + MARGIN_S)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()
        self._read()
        _open(self._guard.stdout).close()
        left = self._reports.get("left")
        if left is None and "error" not in self._reports:
            return sorted(pid for pid in tree if psutil.pid_exists(pid)) or None
        return left or []

    def _read(self) -> None:
        """Take in what the guard has reported since."""
        stdout = _open(self._guard.stdout)
        while not stdout.closed:
            try:
                data = os.read(stdout.fileno(), 65536)
            except BlockingIOError:
                break
            if not data:
                break
            *lines, self._unread = (self._unread + data).split(b"\n")
            for line in lines:
                self._reports.update(json.loads(line))


def _environment(added: Mapping[str, str]) -> dict[str, str]:
    """This process's, with the server's additions.

    Engines send themselves a warm-up request over HTTP, which must not go to a proxy. Output comes
    unbuffered, so that a crash loses none of it.
    """
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    for name in ("NO_PROXY", "no_proxy"):
        env[name] = ",".join(filter(None, (os.environ.get(name), LOOPBACK)))
    return {**env, **added}


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # noqa: S101  (both are pipes, by Popen's arguments)
    return pipe
