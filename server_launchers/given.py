"""Options of the command line that no server would heed: told, and refused where they are wrong."""

import shutil
from collections.abc import Mapping, Sequence

from .presets import Presets, SettingsError
from .probe import find_python
from .resolve import SPECULATIVE


def check_given(names: Sequence[str], presets: Presets, overrides: Mapping[str, object]) -> None:
    """SettingsError, one line, for an engine's Python that is not there or that runs no server."""
    engines = {presets.servers[name]["engine"] for name in names if name in presets.servers}
    if overrides.get("engine_python") is not None:
        _check_python(str(overrides["engine_python"]), only_sim=engines == {"sim"})


def unheeded(names: Sequence[str], presets: Presets, overrides: Mapping[str, object]) -> str | None:
    """Which draft options do nothing, in a sentence; null where a server heeds them all.

    Scripts give all arms the same options, so this is no error.
    """
    servers = [presets.servers[name] for name in names if name in presets.servers]
    if any(server.get("speculative") for server in servers):
        return None
    # A plain baseline of EAGLE's own code loads the head too.
    heads = any(server["engine"] == "eagle" for server in servers)
    draft = SPECULATIVE if heads else ("draft_model", *SPECULATIVE)
    unused = [_flag(key) for key in draft if overrides.get(key) is not None]
    if not unused:
        return None
    arms = "does not speculate" if len(names) == 1 else "do not speculate"
    return f"{', '.join(names)} {arms}: without effect: {', '.join(unused)}"


def _check_python(python: str, *, only_sim: bool) -> None:
    if shutil.which(find_python("sim", python)) is None:
        raise SettingsError(f"--engine-python {python}: there is no such program")
    if only_sim:
        raise SettingsError(
            "--engine-python: the embedded engine is run by the client's own Python: leave it out"
        )


def _flag(key: str) -> str:
    return "--" + key.replace("_", "-")
