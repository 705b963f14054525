"""Every shell script of the project passes shellcheck."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.gpu_node.matrix import ROOT, environment

SCRIPTS = sorted(
    path
    for folder in [*ROOT.glob("[a-z]*"), ROOT / ".ci"]  # not what is built, fetched or hidden
    if folder.is_dir() and folder.name != "results"
    for path in [*folder.rglob("*.sh"), *folder.rglob("*.sbatch"), *folder.glob("run")]
    if path.is_file()
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_shellcheck(script: Path) -> None:
    checker = shutil.which("shellcheck", path=environment()["PATH"])
    assert checker, "shellcheck is missing: pip install -e '.[dev]'"
    done = subprocess.run([checker, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
