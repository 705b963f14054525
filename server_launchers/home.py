"""Paths in the user's home folder, for a user who may have none."""

import os
from pathlib import Path


def at_home(path: str | Path) -> Path:
    """`path` with its ~ replaced; with it where no home is known, as for an unknown uid."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 (Path.expanduser raises there)
