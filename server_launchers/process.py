"""One server as a process tree: started on a free port, watched until ready, ended whole."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import httpx
import psutil
from msgspec import Struct

from . import gpu, log_file, ports
from .diagnose import Cause, diagnose, doomed
from .leash import Leash
from .settings import LaunchCommand

GRACE_S = 15.0  # from SIGTERM to SIGKILL
POLL_S = 0.25
TAIL_BYTES = 400_000
DOOMED_S = 20.0  # for a parent to notice that its child has failed
PORT_RELEASE_S = 5.0
VISIBLE = "CUDA_VISIBLE_DEVICES"
GPU_RELEASE_S = 60.0  # SGLang's own scripts wait over 30 s on some GPUs


class LaunchError(RuntimeError):
    """The server could not be launched: one line with the first real error and the log's path."""

    def __init__(self, message: str, cause: Cause | None = None) -> None:
        super().__init__(message)
        self.cause = cause


class Stopped(Struct, frozen=True, kw_only=True):
    """How a server ended. `warnings`, one line each, say what it left behind."""

    returncode: int | None
    seconds: float
    warnings: tuple[str, ...] = ()


class ServerProcess:
    """A running server. Use it as a context manager: leaving it ends the whole tree."""

    def __init__(self, command: LaunchCommand, log: Path, grace_s: float) -> None:
        """Use `start`."""
        self.command = command
        self.log = log
        self.ready_s: float | None = None
        self._gpu_memory = gpu.MemoryWatch({**os.environ, **command.env}.get(VISIBLE))
        self._claim = log_file.claimed(log)
        self._began = time.monotonic()
        self._leash = Leash(command.argv, command.env, log, grace_s)
        self._doomed_since: float | None = None
        self._stopped: Stopped | None = None
        self._left: list[int] = []

    @classmethod
    def start(cls, command: LaunchCommand, log: Path, grace_s: float = GRACE_S) -> Self:
        """Start the server with its output in `log`; does not wait until it is ready.

        Raises LaunchError if its port is taken, the program cannot be run, or the log not written
        or another server's.
        """
        _check_port(command)
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            server = cls(command, log, grace_s)
        except BlockingIOError:
            why = f"another server writes its log to {log}: choose another file with --log"
            raise LaunchError(f"{command.name}: {why}") from None
        except OSError as error:
            why = f"cannot start it with its log in {log}: {error.strerror}"
            raise LaunchError(f"{command.name}: {why}") from error
        problem = server._leash.started()
        if problem:
            server.stop()
            raise LaunchError(f"{command.name}: cannot run {command.argv[0]}: {problem}")
        return server

    def wait_ready(
        self,
        timeout_s: float | None = None,
        cancel: Callable[[], bool] | None = None,
        on_wait: Callable[[float, str], None] | None = None,
    ) -> float:
        """Wait until the server answers under its name, or wants a key.

        Returns the seconds since its start.

        `on_wait(seconds, last_log_line)` is called four times a second. Raises LaunchError if the
        server dies, is not ready in time (default: the command's limit), serves another model, if
        another process answers on its port, or if `cancel()` turns true.
        """
        limit = self.command.ready_timeout_s if timeout_s is None else timeout_s
        with httpx.Client(trust_env=False, timeout=2.0) as client:
            while not self._ready(client):
                seconds = time.monotonic() - self._began
                if not self.alive():
                    raise self._error(self.exit_reason() or "it was stopped")
                if cancel and cancel():
                    raise LaunchError(f"{self.command.name}: the launch was cancelled")
                if self._doomed():
                    raise self._error(f"it failed and does not end: {self.diagnosis()}")
                if seconds > limit:
                    last = self.last_line()[:160] or "nothing"
                    raise self._error(f"not ready after {limit:g} s; its last words: {last}")
                if on_wait:
                    on_wait(seconds, self.last_line())
                time.sleep(POLL_S)
        self.ready_s = time.monotonic() - self._began
        self._gpu_memory.look(self._leash.pids())
        return self.ready_s

    @property
    def pid(self) -> int:
        """The root of the tree, the guard: the server and all that it starts are below it."""
        return self._leash.pid

    def alive(self) -> bool:
        """Whether the server's main process still runs."""
        return self._stopped is None and self._leash.alive()

    def exit_reason(self) -> str | None:
        """Why the server ended by itself, in one line; None while it runs and after `stop`."""
        if self._stopped or self.alive():
            return None
        code = self._leash.returncode
        how = "it ended" if code is None else f"it ended with code {code}"
        cause = self.diagnosis()
        return f"{how}: {cause}" if cause else how

    def diagnosis(self) -> Cause | None:
        """What the log says went wrong, if anything did; also for a server that still answers."""
        return diagnose(
            self.log_tail(),
            self.command.engine,
            speculative=self.command.speculative_asked is not None,
            returncode=self._leash.returncode,
        )

    def log_tail(self, size: int = TAIL_BYTES) -> str:
        """The last `size` bytes of the log."""
        return log_file.tail(self.log, size)

    def last_line(self) -> str:
        """The newest line of the log: what the server is busy with."""
        return log_file.last_line(self.log)

    def stop(self) -> Stopped:
        """End the whole tree, then wait (bounded) for its port and its GPU memory. Idempotent."""
        if self._stopped is None:
            begun = time.monotonic()
            self._gpu_memory.look(self._leash.pids())
            left = self._leash.end()
            self._left = left or []
            _until(lambda: ports.is_free(*_address(self.command)), PORT_RELEASE_S)
            _until(lambda: not self._gpu_memory.held(), GPU_RELEASE_S)
            self._claim.close()
            unknown = ["its processes may be running: its guard ended first"]
            self._stopped = Stopped(
                returncode=self._leash.returncode,
                seconds=time.monotonic() - begun,
                warnings=(
                    *(f"{self.command.name}: {each}" for each in unknown if left is None),
                    *self.left_behind(),
                ),
            )
        return self._stopped

    def left_behind(self) -> tuple[str, ...]:
        """What of the stopped server is still there now, one line each."""
        host, port = _address(self.command)
        found = []
        running = [pid for pid in self._left if psutil.pid_exists(pid)]
        if running:
            found.append(f"processes left running: {running}")
        if not ports.is_free(host, port):
            found.append(f"port {port} is still in use by {ports.holder(host, port)}")
        found += self._gpu_memory.held()
        return tuple(f"{self.command.name}, stopped: {each}" for each in found)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _ready(self, client: httpx.Client) -> bool:
        """Ready to be measured: our own process answers, under its name, its warm-up over."""
        try:
            answer = client.get(self.command.url + self.command.ready_path)
        except httpx.HTTPError:
            return False
        self._check_owner()
        # One that wants a key serves all the same: whoever measures it has the key, or says so.
        locked = answer.status_code in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}
        if answer.status_code != httpx.codes.OK and not locked:
            return False
        if not locked and self.command.ready_path == "/v1/models":
            self._check_name(answer)
        return self.command.ready_line is None or self.command.ready_line in self.log_tail()

    def _doomed(self) -> bool:
        """SGLang's and vLLM's parents may wait forever for a child that has failed."""
        if self._doomed_since is None and doomed(self.log_tail()):
            self._doomed_since = time.monotonic()
        return self._doomed_since is not None and time.monotonic() - self._doomed_since > DOOMED_S

    def _check_owner(self) -> None:
        """An older server may hold the port: SGLang finds out minutes later, after loading."""
        host, port = _address(self.command)
        if ports.listeners(host, port) - self._leash.pids():
            raise LaunchError(
                f"{self.command.name}: port {port} is answered by {ports.holder(host, port)}, not"
                " by the server just started: stop that, or choose another port with --port"
            )

    def _check_name(self, answer: httpx.Response) -> None:
        try:
            names = [str(model["id"]) for model in answer.json()["data"]]
        except (ValueError, KeyError, TypeError):
            raise self._error("its /v1/models is no list of models") from None
        wanted = self.command.served_model_name
        if wanted not in names:
            raise self._error(f"it serves {', '.join(names) or 'no model'}, not {wanted}")

    def _error(self, what: str) -> LaunchError:
        return LaunchError(f"{self.command.name}: {what} (log: {self.log})", self.diagnosis())


def _check_port(command: LaunchCommand) -> None:
    host, port = _address(command)
    try:
        if ports.is_free(host, port):
            return
    except OSError as error:
        raise LaunchError(f"{command.name}: cannot listen on {host}: {error.strerror}") from None
    raise LaunchError(
        f"{command.name}: port {port} is in use by {ports.holder(host, port)}: stop that, or choose"
        " another port with --port"
    )


def _address(command: LaunchCommand) -> tuple[str, int]:
    parts = urlsplit(command.url)
    return parts.hostname or "127.0.0.1", parts.port or 80


def _until(done: Callable[[], bool], limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True
