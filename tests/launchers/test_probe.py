import sys
import textwrap
from pathlib import Path

import pytest

from server_launchers import launch as launch_module
from server_launchers import presets as presets_module
from server_launchers import probe as probe_module
from server_launchers.launch import prepare, prepare_elsewhere
from server_launchers.presets import SettingsError, load
from server_launchers.probe import find_python, look, probe

HELP = """
    import os, pathlib, sys
    asked = pathlib.Path(os.environ["ASKED"])
    asked.write_text((asked.read_text() if asked.exists() else "") + " ".join(sys.argv[1:]) + "\\n")
    print("usage: --host HOST --cuda-graph-max-bs N")
"""


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(probe_module, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(presets_module, "USERS", tmp_path / "none.toml")
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    look.cache_clear()


def engine(folder: Path, name: str, version: str, cuda: str | None = None) -> str:
    """An installation of `name` that this very Python finds, with the torch of its build."""
    site = folder / "site"
    for package, its_version in ((name, version), ("torch", "2.13.0")):
        (site / package).mkdir(parents=True)
        (site / package / "__init__.py").write_text("raise RuntimeError('it takes a minute')")
        info = site / f"{package}-{its_version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {package}\nVersion: {its_version}\n")
    (site / "torch" / "version.py").write_text(f"cuda = {cuda!r}\n")
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return str(python)


def with_help(folder: Path, text: str = HELP) -> None:
    package = folder / "site" / "sglang"
    (package / "__init__.py").write_text("")
    (package / "launch_server.py").write_text(textwrap.dedent(text))


def test_looks_without_importing_the_engine(tmp_path: Path) -> None:
    seen = look("vllm", engine(tmp_path, "vllm", "0.32.0", cuda="13.0"))
    assert (seen.found, seen.version, seen.torch) == (True, "0.32.0", "2.13.0")
    assert seen.device == "cuda"


def test_a_cpu_build_is_seen(tmp_path: Path) -> None:
    assert look("vllm", engine(tmp_path, "vllm", "0.32.0")).device == "cpu"


def test_missing_engine_says_how_to_get_it(tmp_path: Path) -> None:
    python = engine(tmp_path, "vllm", "0.32.0")
    with pytest.raises(SettingsError) as missing:
        probe("sglang", python)
    assert str(missing.value) == (
        f"sglang is not installed in {python}: install it there (pip install sglang), or name the"
        " Python that has it with --engine-python PATH"
    )
    with pytest.raises(SettingsError, match="clone SafeAILab/EAGLE"):
        probe("eagle", python)


def test_a_python_that_does_not_run(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="/no/python does not run"):
        probe("vllm", "/no/python")
    other = tmp_path / "notpython"
    other.write_text("#!/bin/sh\necho what >&2; exit 3\n")
    other.chmod(0o755)
    with pytest.raises(SettingsError, match="no Python that can be asked for vllm: what"):
        probe("vllm", str(other))


def test_help_is_asked_once_and_kept(tmp_path: Path) -> None:
    python = engine(tmp_path, "sglang", "0.5.23")
    with_help(tmp_path)
    first = probe("sglang", python).help
    assert first
    assert "--cuda-graph-max-bs N" in first
    look.cache_clear()
    assert probe("sglang", python).help == first
    assert (tmp_path / "asked").read_text() == "--help\n"


def test_a_new_version_is_asked_anew(tmp_path: Path) -> None:
    python = engine(tmp_path, "sglang", "0.5.23")
    with_help(tmp_path)
    probe("sglang", python)
    look.cache_clear()
    site = tmp_path / "site"
    info = (site / "sglang-0.5.23.dist-info").rename(site / "sglang-0.5.24.dist-info")
    (info / "METADATA").write_text("Name: sglang\nVersion: 0.5.24\n")
    probe("sglang", python)
    assert (tmp_path / "asked").read_text() == "--help\n--help\n"


def test_help_that_fails_is_no_error(tmp_path: Path) -> None:
    python = engine(tmp_path, "sglang", "0.5.23")
    with_help(tmp_path, "raise ImportError('half installed')")
    seen = probe("sglang", python)
    assert seen.help is None
    assert seen.version == "0.5.23"


def test_prepared_by_what_the_engine_says(tmp_path: Path) -> None:
    """Help over version (this 0.5.23 knows only the old flag), and CPU flags for a CPU build."""
    python = engine(tmp_path, "sglang", "0.5.23", cuda="13.0")
    with_help(tmp_path)
    made = prepare("sglang", load(), {"engine_python": python, "concurrency": 2})
    assert made.argv[0] == python
    assert made.engine_version == "0.5.23"
    assert "--cuda-graph-max-bs" in made.argv
    assert "--device" not in made.argv
    (tmp_path / "site" / "torch" / "version.py").write_text("cuda = None\n")
    look.cache_clear()
    on_cpu = prepare("sglang", load(), {"engine_python": python, "concurrency": 2})
    assert "--device" in on_cpu.argv
    assert "--cuda-graph-max-bs" not in on_cpu.argv


def test_what_cannot_run_is_refused_before_asking() -> None:
    with pytest.raises(SettingsError, match="one request at a time"):
        prepare("transformers-eagle3", load(), {"engine_python": "/no/python", "concurrency": 2})


def test_find_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_python("vllm") == sys.executable
    own = tmp_path / ".engines" / "vllm" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.touch()
    assert find_python("vllm") == str(own)
    assert find_python("sglang") == sys.executable
    assert find_python("vllm", "/given/python") == "/given/python"


def test_a_python_in_this_folder_is_not_looked_for_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--engine-python ./python3` comes here as `python3`."""
    engine(tmp_path, "vllm", "0.32.0")
    (tmp_path / "bin" / "python").rename(tmp_path / "python3")
    monkeypatch.chdir(tmp_path)
    given = str(Path("./python3"))
    assert find_python("vllm", given) == str(tmp_path / "python3")
    assert look("vllm", find_python("vllm", given)).version == "0.32.0"
    monkeypatch.chdir("/")
    assert find_python("vllm", given) == "python3"
    monkeypatch.chdir(tmp_path.parent)
    relative = f"{tmp_path.name}/python3"
    assert find_python("vllm", relative) == str(tmp_path / "python3")


def test_a_line_for_another_machine_is_not_that_of_a_cpu_build_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = engine(tmp_path, "sglang", "0.5.23")
    with_help(tmp_path)
    monkeypatch.setattr(launch_module, "find_python", lambda _, given=None: given or python)
    elsewhere = prepare_elsewhere("sglang", load(), {"concurrency": 2})
    assert elsewhere.argv[0] == "python3"
    assert "--cuda-graph-max-bs-decode" in elsewhere.argv  # the newest's
    assert "--device" not in elsewhere.argv
    assert elsewhere.engine_version is None
    assert not (tmp_path / "asked").exists()
    named = prepare_elsewhere("sglang", load(), {"concurrency": 2, "engine_python": python})
    assert named.argv[0] == python
    assert named.env["SGLANG_USE_CPU_ENGINE"] == "1"
    (tmp_path / "site" / "torch" / "version.py").write_text("cuda = '13.0'\n")
    look.cache_clear()
    on_gpu = prepare_elsewhere("sglang", load(), {"concurrency": 2})
    assert on_gpu.argv[0] == python
    assert "--cuda-graph-max-bs" in on_gpu.argv  # as its help says
