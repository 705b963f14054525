"""Calls the installed command as a shell script would."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

BENCH_CLIENT = (sys.executable, "-c", "from bench_client.cli import main; main()")


def bench_client(
    *arguments: object, timeout: float = 60, **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*BENCH_CLIENT, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=os.environ | env,
        check=False,
    )


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """The only line on stderr, which is what an error must be."""
    lines = done.stderr.strip().split("\n")
    shown = [line for line in lines if not line.endswith("...")]
    assert len(shown) == 1, done.stderr
    return shown[0]


def prompts(path: Path, count: int = 2) -> Path:
    lines = [json.dumps({"prompt": f"prompt number {n}", "id": f"p{n}"}) for n in range(count)]
    path.write_text("\n".join(lines) + "\n")
    return path


def folder(results: Path) -> Path:
    (found,) = results.iterdir()
    return found


def load(path: Path) -> Any:
    return json.loads(path.read_text())


def records(path: Path) -> list[Any]:
    return [json.loads(line) for line in (path / "requests.jsonl").read_text().splitlines()]
