from pathlib import Path

import pytest

from server_launchers import presets


@pytest.fixture(autouse=True)
def no_user_presets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(presets, "USERS", tmp_path / "none.toml")
