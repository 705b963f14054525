from pathlib import Path

import pytest

from server_launchers.facts import ServerFacts
from server_launchers.hub import commit, with_commits

OLD, NEW, HEAD = "a" * 40, "b" * 40, "c" * 40


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """As huggingface_hub lays it out."""
    for repository, refs in {
        "models--Qwen--Qwen3-8B": {"main": NEW, "v1": OLD, "refs/pr/7": HEAD},
        "models--me--head": {"main": HEAD + "\n"},
        "models--gpt2": {"main": OLD},
        "models--me--broken": {"main": "half a dow"},
    }.items():
        for name, said in refs.items():
            ref = tmp_path / "hub" / repository / "refs" / name
            ref.parent.mkdir(parents=True, exist_ok=True)
            ref.write_text(said)
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "hub"


@pytest.mark.parametrize(
    ("model", "revision", "found"),
    [
        ("Qwen/Qwen3-8B", None, NEW),
        ("Qwen/Qwen3-8B", "main", NEW),
        ("Qwen/Qwen3-8B", "v1", OLD),
        ("Qwen/Qwen3-8B", "refs/pr/7", HEAD),
        ("Qwen/Qwen3-8B", "e" * 40, "e" * 40),  # asked for by its commit
        ("Qwen/Qwen3-8B", "gone", None),
        ("gpt2", None, OLD),
        ("me/head", None, HEAD),
        ("me/broken", None, None),
        ("me/unknown", None, None),
        ("/models/Qwen3-8B", None, None),
        (None, None, None),
    ],
)
def test_the_commit_that_was_loaded(
    model: str | None, revision: str | None, found: str | None
) -> None:
    assert commit(model, revision) == found


def test_a_folder_of_that_name_is_what_engines_load(tmp_path: Path) -> None:
    (tmp_path / "me" / "head").mkdir(parents=True)
    assert commit("me/head") is None


def test_a_cache_of_its_own(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = cache.rename(cache.with_name("other"))
    assert commit("me/head") is None
    monkeypatch.setenv("HF_HUB_CACHE", str(other))
    assert commit("me/head") == HEAD


def test_commits_of_target_and_head() -> None:
    said = ServerFacts(engine_version="1", revision="v1", draft_revision="main")
    here = with_commits(said, "Qwen/Qwen3-8B", "me/head")
    assert (here.revision, here.draft_revision, here.engine_version) == (OLD, HEAD, "1")
    away = with_commits(said, None, None)
    assert (away.revision, away.draft_revision) == (None, None)
