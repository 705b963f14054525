"""A bench-client in the background: what it says, what it leaves, and what still runs of it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil

from tests.cli.helpers import BENCH_CLIENT, folder, load, prompts, records
from tests.conftest import free_port

_MARK = "BENCH_CLIENT_TEST"
TOKENS = 20
PARALLEL = ("--concurrency", 4, "--workers", 2)
STUCK = ("--extra-body", '{"sim_fault":"never_answers"}')


class Client:
    """Every process that it starts, however deep, carries a mark in its environment."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str, home: Path) -> None:
        self.process = process
        self.results = home / "results"
        self._mark = mark
        self._home = home

    @property
    def said(self) -> str:
        return (self._home / "stderr").read_text()

    @property
    def printed(self) -> str:
        return (self._home / "stdout").read_text()

    @property
    def folder(self) -> Path:
        return folder(self.results)

    @property
    def header(self) -> Any:
        return load(self.folder / "run.json")

    def records(self) -> list[Any]:
        return records(self.folder)

    def until(self, what: Callable[[], object], within: float = 20) -> None:
        deadline = time.monotonic() + within
        while not what():
            assert time.monotonic() < deadline, self.said
            time.sleep(0.01)

    def until_records(self, count: int) -> None:
        """Wait for so many records on the disk."""
        self.until(lambda: sum(1 for _ in self.results.glob("*/requests.jsonl")))
        self.until(lambda: (self.folder / "requests.jsonl").read_bytes().count(b"\n") >= count)

    def until_said(self, text: str) -> None:
        self.until(lambda: text in self.said)

    def signal(self, number: int) -> None:
        """To its whole group, as a terminal does."""
        os.killpg(self.process.pid, number)

    def code(self, within: float = 20) -> int:
        """Its exit code; it has to end in time."""
        return self.process.wait(within)

    def tree(self, module: str | None = None) -> list[psutil.Process]:
        """Its other processes that run, or those of them that run a module."""
        return [each for each in psutil.process_iter() if self._ours(each, module)]

    def _ours(self, process: psutil.Process, module: str | None) -> bool:
        try:
            marked = process.environ().get(_MARK) == self._mark
            running = process.status() != psutil.STATUS_ZOMBIE
            ours = marked and running and process.pid != self.process.pid
            return ours and module in (None, *process.cmdline()[2:3])
        except psutil.Error:
            return False

    def leaves_nothing(self, within: float = 5) -> None:
        """No server, no guard, no worker, no sampler runs on."""
        self.until(lambda: not self.tree(), within)


@contextmanager
def client(
    home: Path, *arguments: object, program: str | None = None, pipe: int | None = None
) -> Iterator[Client]:
    """Started in a group of its own; whatever is left in the end is killed.

    All that it prints goes to `pipe`, if there is one.
    """
    mark = uuid4().hex
    python = [sys.executable, "-c", program] if program else BENCH_CLIENT
    command = [*python, *map(str, arguments), "--results", str(home / "results")]
    with (home / "stdout").open("wb") as out, (home / "stderr").open("wb") as err:
        process = subprocess.Popen(
            command,
            stdout=pipe or out,
            stderr=pipe or err,
            start_new_session=True,
            env=os.environ | {_MARK: mark},
        )
    found = Client(process, mark, home)
    try:
        yield found
    finally:
        process.kill()
        process.wait()
        for left in found.tree():
            left.kill()


def launched(home: Path, *more: object, count: int = 60, fixed: str = "20:5") -> tuple[object, ...]:
    """A run that launches its server and lasts several seconds."""
    return (
        *("--server", "sim", "--launch-arg=--fixed", f"--launch-arg={fixed}"),
        *("--port", free_port(), "--scenario", prompts(home / "p.jsonl", count)),
        *("--max-tokens", TOKENS, "--ignore-eos", "--no-calibrate", *more),
    )


def launched_pair(home: Path, *more: object) -> tuple[object, ...]:
    """Two arms of four requests each; the engine models its speculation."""
    return (
        *("--server", "sim", "--server", "sim-eagle3", "--port", free_port()),
        *("--launch-arg=--step-ms", "--launch-arg=8", "--launch-arg=--verify-ms"),
        *("--launch-arg=16", "--scenario", prompts(home / "p.jsonl", 4)),
        *("--max-tokens", TOKENS, "--ignore-eos", "--no-calibrate", *more),
    )


def kinds(records: list[Any]) -> list[str]:
    return [record["failure"]["kind"] for record in records if record["failure"]]


def whole(records: list[Any]) -> list[Any]:
    """The good ones, each with all of its tokens."""
    good = [record for record in records if record["outcome"] == "ok"]
    for record in good:
        assert record["output_tokens"] == TOKENS
        assert record["events"]["tokens"] == [1] * TOKENS
        assert record["finish_reason"] == "length"
    return good


def one_error(running: Client) -> str:
    lines = [line for line in running.said.splitlines() if line.startswith("bench-client: ")]
    assert len(lines) == 1, running.said
    assert "Traceback" not in running.said
    return lines[0]
