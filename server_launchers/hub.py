"""Which commit of a model is meant, by Hugging Face's cache on this machine."""

import os
import re
from pathlib import Path

from msgspec import structs

from .facts import ServerFacts
from .home import at_home

COMMIT = re.compile(r"[0-9a-f]{40}")


def home() -> Path:
    """Where Hugging Face's libraries keep what they keep."""
    return at_home(os.environ.get("HF_HOME", "~/.cache/huggingface"))


def cache() -> Path:
    """Where they keep downloads."""
    return at_home(os.environ.get("HF_HUB_CACHE", home() / "hub"))


def repository(model: str) -> Path:
    """Where they keep those of one repository."""
    return cache() / f"models--{model.replace('/', '--')}"


def with_commits(found: ServerFacts, model: str | None, draft_model: str | None) -> ServerFacts:
    """`found` with a commit as the revision of each, null where that is local or unknown.

    Pass no models for a server that may be on another machine: its own word is all there is.
    """
    return structs.replace(
        found,
        revision=commit(model, found.revision),
        draft_revision=commit(draft_model, found.draft_revision),
    )


def commit(model: str | None, revision: str | None = None) -> str | None:
    """The commit that a repository's `revision` (null: main) was when it was last asked for."""
    if revision and COMMIT.fullmatch(revision):
        return revision
    if model is None or not re.fullmatch(r"[\w.-]+(?:/[\w.-]+)?", model) or Path(model).exists():
        return None
    ref = repository(model) / "refs" / (revision or "main")
    try:
        said = ref.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return said if COMMIT.fullmatch(said) else None
