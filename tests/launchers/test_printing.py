import json
import shlex

import pytest

from server_launchers.launch import prepare, prepare_elsewhere
from server_launchers.presets import SettingsError, load
from server_launchers.shell import redacted, shell_line

from .building import built


def test_shell_line_runs_as_written() -> None:
    made = built(
        "vllm-eagle3",
        simulate_accept_length=2.5,
        env={"HF_TOKEN": "hf_secret", "VLLM_LOGGING_LEVEL": "a b"},
        extra_args=[
            "--api-key",
            "sk-1",
            "--ssl-keyfile-password=pw",
            "--max-num-batched-tokens",
            "4",
        ],
    )
    line = shell_line(made)
    assert "\n" not in line
    assert "hf_secret" not in line
    assert "sk-1" not in line
    assert "pw" not in line.replace("***", "")
    words = shlex.split(line)
    env = ["HF_TOKEN=$HF_TOKEN", "VLLM_LOGGING_LEVEL=a b", "VLLM_SERVER_DEV_MODE=1"]
    assert words[:3] == env
    assert tuple(words[3:]) == redacted(made.argv)
    assert json.loads(words[words.index("--speculative-config") + 1])["method"] == "eagle3"
    assert words[-2:] == ["--max-num-batched-tokens", "4"]
    assert words[words.index("--api-key") + 1] == "***"


def test_redaction_leaves_eagles_tree_alone() -> None:
    assert redacted(("--total-token", "60")) == ("--total-token", "60")
    assert redacted(("--admin-api-key=x", "y")) == ("--admin-api-key=***", "y")


def test_printing_needs_no_engine() -> None:
    made = prepare_elsewhere("sglang-eagle3", load(), {"engine_python": "/no/python"})
    assert made.argv[0] == "/no/python"
    with pytest.raises(SettingsError, match="does not run"):
        prepare("sglang-eagle3", load(), {"engine_python": "/no/python"})
