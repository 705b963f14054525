from typing import Any

import pytest

from server_launchers.presets import SettingsError

from .building import built, settings, value


def test_a_model_that_is_no_preset_is_used_as_it_is() -> None:
    made = built("sglang", model="/models/My Model")
    assert value(made, "--model-path") == "/models/My Model"
    assert value(made, "--dtype") is None
    named = built("sglang", model="/models/m", served_model_name="m")
    assert value(named, "--served-model-name") == named.served_model_name == "m"
    with pytest.raises(SettingsError, match=r"/models/m has no known draft model: .*--draft-model"):
        settings("sglang-eagle3", model="/models/m")
    auto = built("sglang-eagle3", model="/models/m", draft_model="/models/h")
    assert value(auto, "--speculative-num-steps") is None  # SGLang chooses all three


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"port": 0}, "port: Expected `int` >= 1"),
        ({"port": 65536}, "port: Expected `int` <= 65535"),
        ({"port": "30000"}, "port: Expected `int`, got `str`"),
        ({"concurrency": 0}, "concurrency: Expected `int` >= 1"),
        ({"memory_fraction": 1.5}, "memory_fraction: Expected `float` < 1"),
        ({"spec_steps": 0}, "spec_steps: Expected `int` >= 1"),
        ({"seed": -1}, "seed: Expected `int` >= 0"),
        ({"context_length": -5}, "context_length: Expected `int` >= 1"),
        ({"no_such": 1}, "no_such"),
    ],
)
def test_bad_values_get_one_clear_line(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message) as refused:
        settings("sglang-eagle3", **overrides)
    assert "\n" not in str(refused.value)


def test_unknown_server() -> None:
    with pytest.raises(SettingsError, match="no server preset sglang-eagle: did you mean"):
        settings("sglang-eagle")
    with pytest.raises(SettingsError, match="no server preset tgi: there are sglang, "):
        settings("tgi")


@pytest.mark.parametrize("name", ["sglang-eagle3", "vllm", "transformers", "eagle-plain", "sim"])
@pytest.mark.parametrize(
    ("given", "instead"),
    [
        (["--port=18399"], "use --port$"),
        (["--port", "18399"], "use --port$"),
        (["--enforce-eager", "--host", "0.0.0.0"], "use host in a preset$"),
        (["--served-model-name=x"], "use --served-model-name$"),
        (["--served_model_name=x"], "use --served-model-name$"),
        (["--log-level=warning"], "use --log-level=info, or leave it out$"),
        (["--log-level", "ERROR"], "use --log-level=info, or leave it out$"),
    ],
)
def test_what_would_hide_a_server_from_the_client_is_refused(
    name: str, given: list[str], instead: str
) -> None:
    with pytest.raises(SettingsError, match=instead) as refused:
        settings(name, extra_args=given)
    assert "\n" not in str(refused.value)


def test_other_log_levels_and_flags_are_the_users() -> None:
    free = ["--log-level=debug", "--log-level-http", "warning", "--port-range=3", "--log-level"]
    assert built("sglang", extra_args=free).argv[-5:] == tuple(free)


@pytest.mark.parametrize("model", ["qwen3-8b", "Qwen/Qwen3-8B"])
def test_a_presets_own_model_is_that_preset(model: str) -> None:
    made = built("sglang-eagle3", model=model)
    assert value(made, "--dtype") == "bfloat16"
    assert value(made, "--context-length") == "16384"
    assert value(made, "--speculative-draft-model-path") == "AngelSlim/Qwen3-8B_eagle3"
    llama = built("sglang", model="meta-llama/Llama-3.1-8B-Instruct")
    assert value(llama, "--mem-fraction-static") == "0.6"
