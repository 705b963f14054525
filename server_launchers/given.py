"""Options of the command line that none of the servers named would heed: refused, not ignored."""

import shutil
from collections.abc import Mapping, Sequence

from .presets import Presets, SettingsError
from .probe import find_python
from .resolve import SPECULATIVE


def check_given(names: Sequence[str], presets: Presets, overrides: Mapping[str, object]) -> None:
    """SettingsError, one line, for a draft option without a server that drafts, and for an engine's
    Python that is not there, or that no server is run by. Unknown names are not looked at.

    One server that heeds an option is enough, so that the same options serve both arms.
    """
    servers = [presets.servers[name] for name in names if name in presets.servers]
    if len(servers) < len(names):
        return
    engines = {server["engine"] for server in servers}
    given = [key for key, value in overrides.items() if value is not None]
    if not any(server.get("speculative") for server in servers):
        unused = [key for key in SPECULATIVE if key in given]
        if "draft_model" in given and "eagle" not in engines:  # its plain baseline has the head too
            unused.insert(0, "draft_model")
        if unused:
            raise SettingsError(
                f"{_flag(unused[0])}: none of the servers speculates: leave it out, or add one that"
                " does, such as --server sglang-eagle3"
            )
    if "engine_python" in given:
        _check_python(str(overrides["engine_python"]), only_sim=engines == {"sim"})


def _check_python(python: str, *, only_sim: bool) -> None:
    if shutil.which(find_python("sim", python)) is None:
        raise SettingsError(f"--engine-python {python}: there is no such program")
    if only_sim:
        raise SettingsError(
            "--engine-python: the embedded engine is run by the client's own Python: leave it out"
        )


def _flag(key: str) -> str:
    return "--" + key.replace("_", "-")
