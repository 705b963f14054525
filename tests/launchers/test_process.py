import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from server_launchers.ports import is_free
from server_launchers.process import LaunchError, ServerProcess
from server_launchers.settings import LaunchCommand

SERVERS = Path(__file__).with_name("servers.py")
ROOT = SERVERS.parents[2]


def command(kind: str, port: int, **changes: object) -> LaunchCommand:
    fields: dict[str, object] = {
        "name": "arm",
        "engine": "vllm",
        "argv": (sys.executable, str(SERVERS), kind, str(port), "m"),
        "env": {"ADDED": "yes"},
        "url": f"http://127.0.0.1:{port}",
        "model": "m",
        "draft_model": None,
        "served_model_name": "m",
    }
    return LaunchCommand(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "server.log"


def until(done: Callable[[], bool], limit_s: float = 10.0) -> bool:
    deadline = time.monotonic() + limit_s
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def tree(log: Path, count: int) -> list[int]:
    """The pids that the stubborn server wrote down."""

    def pids() -> list[int]:
        lines = log.read_text().splitlines()
        return [int(pid) for line in lines if line.startswith("TREE") for pid in line.split()[1:]]

    assert until(lambda: len(pids()) == count), log.read_text()
    return pids()


def gone(pids: list[int]) -> bool:
    return not any(map(psutil.pid_exists, pids))


def test_ready_then_stopped(port: int, log: Path) -> None:
    with ServerProcess.start(command("serve", port), log) as server:
        seconds = server.wait_ready(timeout_s=20)
        assert server.ready_s == seconds > 0
        assert server.alive()
        assert server.exit_reason() is None
    assert not server.alive()
    assert server.exit_reason() is None  # it was asked to end
    stopped = server.stop()
    assert stopped is server.stop()
    assert stopped.returncode == -signal.SIGTERM
    assert stopped.warnings == ()
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))


def test_whole_tree_ends_though_it_ignores_sigterm_and_left_the_group(port: int, log: Path) -> None:
    with ServerProcess.start(command("stubborn", port), log, grace_s=0.5) as server:
        server.wait_ready(timeout_s=20)
        pids = tree(log, 3)
        assert until(lambda: len({os.getsid(pid) for pid in pids}) == 3)
        assert not gone(pids)
    assert gone(pids)
    stopped = server.stop()
    assert stopped.returncode == -signal.SIGKILL
    assert stopped.warnings == ()
    assert stopped.seconds < 8


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_killed_client(port: int, log: Path, number: signal.Signals) -> None:
    with client("stubborn", port, log, "stay") as process:
        pids = tree(log, 3)
        guards = [each.pid for each in psutil.Process(process.pid).children()]
        assert guards
        process.send_signal(number)
        process.wait(5)
    assert until(lambda: gone([*pids, *guards]))


def test_nothing_outlives_a_client_that_forgot_its_server(port: int, log: Path) -> None:
    with client("serve", port, log, "leave") as process:
        assert process.wait(10) == 0
    assert until(lambda: is_free("127.0.0.1", port))


def test_a_fork_of_the_client_does_not_hold_the_server(port: int, log: Path) -> None:
    """A forked worker inherits the pipe to the guard, so that its end brings no end of file."""
    with client("serve", port, log, "fork") as process:
        worker, *others = psutil.Process(process.pid).children()
        if "guard.py" in str(worker.cmdline()):
            worker, others = others[0], [worker]
        pids = [each.pid for guard in others for each in (guard, *guard.children())]
        assert len(pids) == 2
        try:
            process.kill()
            process.wait(5)
            assert worker.is_running()
            assert until(lambda: gone(pids))
        finally:
            worker.kill()


def test_the_server_dies_with_its_guard(port: int, log: Path) -> None:
    with ServerProcess.start(command("serve", port), log) as server:
        server.wait_ready(timeout_s=20)
        (guard,) = psutil.Process().children()
        (child,) = guard.children()
        guard.kill()
        assert until(lambda: not psutil.pid_exists(child.pid))
        assert until(lambda: not server.alive())
        assert server.exit_reason() == "it ended"


def test_port_in_use_names_the_holder(port: int, log: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", port))
        holder.listen()
        with pytest.raises(LaunchError) as refused:
            ServerProcess.start(command("serve", port), log)
    message = str(refused.value)
    assert message.startswith(f"arm: port {port} is in use by pid {os.getpid()} (")
    assert "--port" in message
    assert "\n" not in message
    assert not log.exists()


def test_an_address_of_another_machine(log: Path) -> None:
    elsewhere = command("serve", 8000, url="http://192.0.2.77:8000")
    with pytest.raises(LaunchError, match=r"arm: cannot listen on 192\.0\.2\.77: Cannot assign"):
        ServerProcess.start(elsewhere, log)


def test_an_old_server_that_answers_is_not_taken_for_ours(port: int, log: Path) -> None:
    """SGLang binds after loading; whoever took the port meanwhile would be measured instead."""
    with ServerProcess.start(command("silent", port), log) as server:
        other = subprocess.Popen([sys.executable, str(SERVERS), "serve", str(port), "m"])
        try:
            with pytest.raises(LaunchError, match=rf"is answered by pid {other.pid} \("):
                server.wait_ready(timeout_s=20)
        finally:
            other.kill()
            other.wait()


def test_death_at_start_shows_its_error(port: int, log: Path) -> None:
    with ServerProcess.start(command("fails", port), log) as server:
        with pytest.raises(LaunchError) as failed:
            server.wait_ready(timeout_s=20)
        message = str(failed.value)
        assert message == (
            f"arm: it ended with code 1: RuntimeError: the weights are made of cheese (log: {log})"
        )
        assert failed.value.cause
        assert failed.value.cause.kind == "unknown"


def test_timeout_shows_its_last_words(port: int, log: Path) -> None:
    with ServerProcess.start(command("silent", port), log) as server:
        assert until(lambda: server.last_line() == "still loading shard 3 of 9")
        with pytest.raises(LaunchError, match=r"not ready after 0\.1 s; .*shard 3 of 9 \(log: "):
            server.wait_ready(timeout_s=0.1)


def test_the_wait_is_told_of_and_can_be_cancelled(port: int, log: Path) -> None:
    told: list[tuple[float, str]] = []
    with (
        ServerProcess.start(command("silent", port), log) as server,
        pytest.raises(LaunchError, match="the launch was cancelled"),
    ):
        server.wait_ready(
            timeout_s=30,
            cancel=lambda: bool(told) and told[-1][1] == "still loading shard 3 of 9",
            on_wait=lambda *wait: told.append(wait),
        )
    assert 0 < told[0][0] <= told[-1][0]


def test_another_model_is_no_readiness(port: int, log: Path) -> None:
    wrong = command("serve", port, served_model_name="qwen")
    with (
        ServerProcess.start(wrong, log) as server,
        pytest.raises(LaunchError, match="it serves m, not qwen"),
    ):
        server.wait_ready(timeout_s=20)


def test_a_server_that_wants_a_key_is_ready(port: int, log: Path) -> None:
    with ServerProcess.start(command("locked", port), log) as server:
        assert server.wait_ready(timeout_s=20) < 20


def test_ready_line_is_waited_for(port: int, log: Path) -> None:
    """SGLang answers /v1/models while its warm-up still runs."""
    early = command("serve", port, ready_line="fired up")
    with (
        ServerProcess.start(early, log) as server,
        pytest.raises(LaunchError, match="not ready after 2 s"),
    ):
        server.wait_ready(timeout_s=2)


def test_death_during_the_run_is_seen_and_explained(port: int, log: Path, tmp_path: Path) -> None:
    flag = tmp_path / "die"
    mortal = command("dies", port, env={"DIE_WHEN": str(flag)})
    with ServerProcess.start(mortal, log) as server:
        server.wait_ready(timeout_s=20)
        assert server.alive()
        flag.touch()
        assert until(lambda: not server.alive(), 5)
        reason = server.exit_reason()
    assert reason
    assert reason.startswith("it ended with code 3: OutOfMemoryError: CUDA out of memory.")
    assert "--gpu-memory-utilization" in reason
    assert server.stop().returncode == 3


def test_a_parent_that_outlives_its_failed_child_is_not_waited_for(
    port: int, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SGLang logs the failure and waits on; without this the wait lasts until the time-out."""
    monkeypatch.setattr("server_launchers.process.DOOMED_S", 0.5)
    script = (
        "import time; print('[2026-11-30 15:32:41] Scheduler hit an exception: Traceback (most"
        " recent call last):\\nKeyError: 1', flush=True); time.sleep(60)"
    )
    stuck = command("", port, engine="sglang", argv=(sys.executable, "-c", script))
    with ServerProcess.start(stuck, log) as server:
        with pytest.raises(LaunchError, match="it failed and does not end: KeyError: 1"):
            server.wait_ready(timeout_s=20)
        assert server.alive()


def test_the_log_of_a_running_server_is_not_truncated(port: int, log: Path) -> None:
    """An SGLang that loads has no port yet: the second would get as far as the log."""
    with ServerProcess.start(command("silent", port), log) as server:
        assert until(lambda: server.last_line() == "still loading shard 3 of 9")
        with pytest.raises(LaunchError) as refused:
            ServerProcess.start(command("serve", port), log)
        assert str(refused.value) == (
            f"arm: another server writes its log to {log}: choose another file with --log"
        )
        assert "shard 3 of 9" in server.log_tail()
    with ServerProcess.start(command("serve", port), log) as again:
        again.wait_ready(timeout_s=20)
        assert "shard" not in again.log_tail()


def test_what_is_left_is_said_while_it_lasts(
    port: int, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server_launchers.process.PORT_RELEASE_S", 0.3)
    server = ServerProcess.start(command("silent", port), log)
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", port))
        holder.listen()
        warnings = server.stop().warnings
        assert len(warnings) == 1
        held = f"arm, stopped: port {port} is still in use by pid {os.getpid()} ("
        assert warnings[0].startswith(held)
        assert server.left_behind() == warnings
    assert server.left_behind() == ()
    assert server.stop().warnings == warnings


def test_program_that_does_not_exist(port: int, log: Path) -> None:
    missing = command("serve", port, argv=("/no/such/python", "-m", "vllm"))
    with pytest.raises(LaunchError) as refused:
        ServerProcess.start(missing, log)
    assert "cannot run /no/such/python: No such file or directory" in str(refused.value)


def test_environment_is_added_to_and_loopback_skips_the_proxy(
    port: int, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # nothing listens there
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "intranet")
    with ServerProcess.start(command("environment", port), log) as server:
        server.wait_ready(timeout_s=20)
        words = server.last_line().split()
    assert words == ["PROXY", "intranet,127.0.0.1,localhost,::1", "yes", os.environ["HOME"]]


def test_ctrl_c_reaches_neither_guard_nor_server(port: int, log: Path) -> None:
    with ServerProcess.start(command("serve", port), log) as server:
        server.wait_ready(timeout_s=20)
        below = psutil.Process().children(recursive=True)
        assert len(below) == 2
        assert all(os.getpgid(each.pid) != os.getpgid(0) for each in below)
        assert all(os.getsid(each.pid) != os.getsid(0) for each in below)


class client:  # noqa: N801  (reads as a context)
    """A client in a process of its own, ready."""

    def __init__(self, kind: str, port: int, log: Path, then: str) -> None:
        module = "tests.launchers.client"
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", module, kind, str(port), str(log), then],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> "subprocess.Popen[bytes]":
        assert self.process.stdout
        assert self.process.stdout.readline() == b"READY\n"
        return self.process

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
