import re
from pathlib import Path

import pytest

from server_launchers import presets as presets_module
from server_launchers.launch import command
from server_launchers.presets import SHIPPED, SettingsError, load, parse
from server_launchers.resolve import resolve

from .building import value


def test_users_presets_win_key_by_key(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text(
        """
        default_model = "mine"
        [servers.fast]
        engine = "sglang"
        speculative = true
        extra_args = ["--stream-interval", "1"]
        env = { A = "server" }
        [servers.vllm]
        port = 8123
        [engines.sglang]
        env = { A = "engine", B = "engine" }
        extra_args = ["--log-level", "info"]
        [models.mine]
        model = "/m"
        draft_model = "/h"
        [models.mine.sglang]
        spec_steps = 2
        spec_topk = 1
        [models.qwen3-8b]
        dtype = "float16"
        """
    )
    loaded = load(own)
    made = command(resolve("fast", loaded, {"extra_args": ["--log-level", "debug"]}))
    assert value(made, "--model-path") == "/m"
    assert value(made, "--speculative-num-draft-tokens") == "3"
    assert made.argv[-6:] == (
        *("--log-level", "info", "--stream-interval", "1", "--log-level", "debug"),
    )
    assert {name: made.env[name] for name in "AB"} == {"A": "server", "B": "engine"}
    assert made.url.endswith(":30000")
    assert resolve("vllm", loaded, {}).port == 8123
    assert resolve("vllm", loaded, {"port": 1}).port == 1
    qwen = resolve("vllm-eagle3", loaded, {"model": "qwen3-8b"})
    assert (qwen.dtype, qwen.draft_model) == ("float16", "AngelSlim/Qwen3-8B_eagle3")


def test_users_file_is_found_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "mine" not in load().servers
    own = tmp_path / "presets.toml"
    own.write_text('[servers.mine]\nengine = "sim"\nmodel = "sim"\n')
    monkeypatch.setattr(presets_module, "USERS", own)
    assert "mine" in load().servers


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[servers.x]\nengine = 'vllm'\nspec_step = 3",
            r"x.toml: \[servers.x\] has no key spec_step: did you mean spec_steps\?",
        ),
        ("[server.x]\n", r"x.toml has no key server: did you mean servers\?"),
        ("[servers.x]\nport = 1", r"\[servers.x\] needs an engine: one of sim, vllm"),
        ("[servers.x]\nengine = 'tgi'", r"x.toml: \[servers.x\] engine: Invalid enum value 'tgi'"),
        ("[servers.x]\nengine = 3", r"\[servers.x\] engine: Expected `str`, got `int`"),
        ("[servers.x]\nengine = 'vllm'\nspeculative = 'no'", "speculative: Expected `bool`"),
        ("[models.x]\ndtype = 'auto'", r"\[models.x\] needs a model"),
        ("[models.x]\nmodel = 'm'\n[models.x.vllm]\nk = 3", r"\[models.x.vllm\] has no key k"),
        ("[models.x]\nmodel = 'm'\nvllm = 3", r"\[models.x.vllm\] must be a table"),
        ("servers = 3", r"\[servers\] must be a table"),
        ("[cpu.tgi]\n", r"\[cpu\] has no key tgi"),
        ("[servers.x", "not valid TOML"),
    ],
)
def test_presets_that_are_wrong_say_where(tmp_path: Path, text: str, message: str) -> None:
    own = tmp_path / "x.toml"
    own.write_text(text)
    with pytest.raises(SettingsError, match=message) as refused:
        load(own)
    assert "\n" not in str(refused.value)


def test_presets_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read the presets .*nothing\.toml"):
        load(tmp_path / "nothing.toml")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("port = 'high'", "port: Expected `int`, got `str`"),
        ("port = 99999", "port: Expected `int` <= 65535"),
        ("extra_args = '--enforce-eager'", "extra_args: Expected `array`, got `str`"),
        ("extra_args = [1]", r"extra_args\[0\]: Expected `str`, got `int`"),
        ("env = 'FOO=1'", "env: Expected `object`, got `str`"),
        ("env = { FOO = 1 }", r"env\[...\]: Expected `str`, got `int`"),
        ("context_length = -5", "context_length: Expected `int` >= 1"),
        ("seed = -1", "seed: Expected `int` >= 0"),
        ("memory_fraction = 1", "memory_fraction: Expected `float` < 1"),
        ("spec_draft_tokens = 1", "spec_draft_tokens: Expected `int` >= 2"),
        ("concurrency = 8", "no key concurrency: it is the load's, given by --concurrency"),
    ],
)
@pytest.mark.parametrize("table", ["[engines.vllm]", "[models.qwen3-8b.vllm]", "[servers.vllm]"])
def test_a_wrong_value_is_told_by_file_table_and_key(
    tmp_path: Path, table: str, line: str, message: str
) -> None:
    own = tmp_path / "x.toml"
    own.write_text(f"{table}\n{line}\n")
    with pytest.raises(SettingsError) as refused:
        load(own)
    told = str(refused.value)
    assert told.startswith(f"{own}: {table} ")
    assert re.search(message, told)
    assert "\n" not in told


def test_a_misspelt_engine_below_a_model(tmp_path: Path) -> None:
    own = tmp_path / "x.toml"
    own.write_text("[models.mine]\nmodel = 'm'\n[models.mine.sglng]\nspec_steps = 3\n")
    with pytest.raises(SettingsError, match="has no key sglng: did you mean sglang"):
        load(own)


def test_a_default_model_is_a_name(tmp_path: Path) -> None:
    own = tmp_path / "x.toml"
    own.write_text("default_model = 3\n")
    with pytest.raises(SettingsError, match=r"default_model must be a name in quotes, not 3"):
        load(own)


def test_adding_to_a_shipped_server_needs_no_engine(tmp_path: Path) -> None:
    own = tmp_path / "x.toml"
    own.write_text("[servers.vllm]\nseed = 3\n")
    assert resolve("vllm", load(own), {}).seed == 3


def test_shipped_presets_use_only_known_keys() -> None:
    parse(presets_module.SHIPPED.read_text(), "presets.toml")


def test_eagles_own_baseline_is_a_preset_away(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text('[servers.eagle-plain]\nengine = "eagle"\n')
    made = command(resolve("eagle-plain", load(own), {}))
    assert "--plain" in made.argv
    assert "--total-token" not in made.argv
    assert "--draft-model" in made.argv
    assert made.speculative_asked is None
    with pytest.raises(SettingsError, match="/m has no known draft model"):
        resolve("eagle-plain", load(own), {"model": "/m"})


@pytest.mark.parametrize("home", [None, "/root"], ids=["none", "closed"])
def test_a_user_without_a_home_has_the_shipped_presets(
    home: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under an unknown uid, or one that another user's environment was kept for."""
    if home is None:
        monkeypatch.delenv("HOME", raising=False)
        monkeypatch.setattr("os.path.expanduser", lambda path: path)
    else:
        monkeypatch.setattr("os.stat", _closed)
    assert load() == parse(SHIPPED.read_text("utf-8"), SHIPPED.name)


def _closed(*_args: object, **_more: object) -> None:
    raise PermissionError(13, "Permission denied")
