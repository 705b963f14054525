"""Calls the matrix as a person or Slurm would, against the embedded engine."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import free_port

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "server_launchers" / "gpu_node"
MATRIX = SCRIPTS / "matrix.sh"

# Half a second for two answers of 8 tokens at once: in a shorter run, what it costs the client to
# begin counts as a saturated core.
STEPS = "--launch-arg=--step-ms --launch-arg=60 --launch-arg=--verify-ms --launch-arg=120"
PRESETS = """
[servers.broken] # cannot start
engine = "sim"
model = "sim"
extra_args = ["--no-such-flag"]
"""

SETTINGS = (
    *("SYSTEMS", "CONCURRENCIES", "RESULTS", "SCENARIO", "MODEL", "MAX_TOKENS", "TEMPERATURE"),
    *("REPEAT", "EXTRA_ARGS", "SGLANG_PYTHON", "VLLM_PYTHON", "TRANSFORMERS_PYTHON"),
    *("EAGLE_PYTHON", "PORT"),
)


def environment(**settings: str) -> dict[str, str]:
    """This one's, with the command under test on the PATH and no settings but those given."""
    own = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    path = f"{Path(sys.executable).parent}{os.pathsep}{own['PATH']}"
    return own | {"PATH": path} | settings


def matrix(cwd: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [MATRIX],
        cwd=cwd,
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def small(cwd: Path, **settings: str) -> dict[str, str]:
    """Settings of a matrix of two prompts, whose files are put into `cwd`."""
    prompts = [json.dumps({"prompt": f"prompt number {n}"}) for n in range(2)]
    (cwd / "two.jsonl").write_text("\n".join(prompts) + "\n")
    (cwd / "presets.toml").write_text(PRESETS)
    given = {"SCENARIO": "two.jsonl", "MAX_TOKENS": "8", "RESULTS": "matrix"}
    extra = f"--no-calibrate --warmup 0 --port {free_port()} --presets presets.toml {STEPS}"
    return given | {"EXTRA_ARGS": extra} | settings


def folders(results: Path) -> list[str]:
    """The results folders, each in the folder of its try."""
    return sorted(str(path.parent.relative_to(results)) for path in results.glob("*/*/run.json"))


def header(folder: Path) -> Any:
    return json.loads((folder / "run.json").read_text())


def rows(results: Path) -> list[list[str]]:
    """The state file: exit code, folder, options."""
    return [line.split("\t")[:3] for line in (results / "matrix.tsv").read_text().splitlines()]
