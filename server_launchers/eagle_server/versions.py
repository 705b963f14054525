"""What answers: which EAGLE, on which torch and transformers."""

import subprocess
import sys
from importlib import metadata
from pathlib import Path


def versions() -> dict[str, str]:
    """EAGLE's commit where it is a clone, else its release; call it when EAGLE is imported."""
    return {
        "version": _commit() or _release("eagle-llm") or "unknown",
        "torch": _release("torch") or "unknown",
        "transformers": _release("transformers") or "unknown",
    }


def _commit() -> str | None:
    eagle = sys.modules.get("eagle")
    if eagle is None or not eagle.__file__:
        return None
    clone = Path(eagle.__file__).parents[1]
    if not (clone / ".git").exists():
        return None
    asked = ["git", "-C", str(clone), "rev-parse", "--short", "HEAD"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _release(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
