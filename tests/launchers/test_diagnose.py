import tomllib
from pathlib import Path

import pytest

from server_launchers.causes import RULES
from server_launchers.diagnose import diagnose, doomed

LOGS = Path(__file__).parents[1] / "fixtures" / "logs"
HEALTHY = LOGS.parent / "facts"
EXPECTED = tomllib.loads((LOGS / "expected.toml").read_text())


def read(name: str) -> str:
    return (LOGS / f"{name}.log").read_text()


def test_every_log_is_expected_and_every_rule_is_met() -> None:
    assert sorted(EXPECTED) == sorted(path.stem for path in LOGS.glob("*.log"))
    assert {rule.kind for rule in RULES} <= {each["kind"] for each in EXPECTED.values()}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_cause_and_advice(name: str) -> None:
    cause = diagnose(read(name), name.partition("-")[0], speculative=True, returncode=1)
    assert cause
    assert cause.kind == EXPECTED[name]["kind"]
    assert cause.line.startswith(EXPECTED[name]["line"])
    assert EXPECTED[name]["advice"] in cause.advice
    assert bool(cause.advice) == bool(EXPECTED[name]["advice"])
    assert "\n" not in str(cause)
    assert len(cause.line) <= 220


def test_sglang_and_cuda_ask_for_opposite_things() -> None:
    starved = diagnose(read("sglang-kv-small"), "sglang", speculative=True)
    full = diagnose(read("sglang-oom-capture"), "sglang", speculative=True)
    assert starved
    assert full
    assert starved.advice.startswith("the weights leave no room for the KV cache: raise")
    assert full.advice.startswith("lower")


def test_advice_names_the_engines_own_flag() -> None:
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB."
    for engine, flag in (("vllm", "--gpu-memory-utilization"), ("sglang", "--mem-fraction-static")):
        cause = diagnose(text, engine, speculative=False)
        assert cause
        assert flag in cause.advice


def test_a_plain_server_is_not_told_to_change_its_draft_model() -> None:
    plain = diagnose(read("sglang-draft-mismatch"), "sglang", speculative=False)
    assert plain
    assert plain.kind == "unknown"
    assert plain.line.startswith("RuntimeError: The size of tensor a (8640)")


def test_a_plain_servers_device_assert_is_not_the_drafts() -> None:
    cause = diagnose(read("vllm-draft-context"), "vllm", speculative=False)
    assert cause
    assert cause.kind == "device_assert"


def test_shutdown_noise_below_the_cause_is_passed_over() -> None:
    noise = (
        "Traceback (most recent call last):\n"
        '  File "x.py", line 1, in destroy\n'
        "RuntimeError: shutdown while shutting down\n"
        "EOFError\n"
    )
    cause = diagnose(read("vllm-oom-load") + noise, "vllm", speculative=False)
    assert cause
    assert cause.kind == "oom"


def test_a_handled_import_error_higher_up_is_not_the_cause() -> None:
    log = (
        "ModuleNotFoundError: No module named 'flash_attn'\n"
        "[2026-11-30 15:32:25] falling back\n"
        "KeyError: 'rope_parameters'\n"
    )
    cause = diagnose(log, "sglang", speculative=False)
    assert cause
    assert (cause.kind, cause.line) == ("unknown", "KeyError: 'rope_parameters'")


@pytest.mark.parametrize("path", sorted(HEALTHY.glob("*.log")), ids=lambda path: path.stem)
def test_a_healthy_log_has_no_cause(path: Path) -> None:
    """They warn of missing modules and quote errors in warnings."""
    log = path.read_text()
    served = ("Decode batch", "SpecDecoding metrics", '/completions HTTP/1.1" 200 OK')
    assert any(sign in log for sign in served)
    assert diagnose(log, path.stem.partition("-")[0], speculative=True) is None
    assert not doomed(log)


def test_killed_without_a_word_was_the_kernel() -> None:
    log = "[2026-11-30 15:32:25] Load weight begin. avail mem=43.90 GB\n"
    for code in (-9, 137):
        killed = diagnose(log, "sglang", speculative=False, returncode=code)
        assert killed
        assert killed.kind == "host_oom"
        assert "dmesg" in killed.advice
    assert diagnose(log, "sglang", speculative=False, returncode=1) is None


def test_sigkill_after_an_error_is_sglang_itself() -> None:
    cause = diagnose(read("sglang-oom-load"), "sglang", speculative=False, returncode=-9)
    assert cause
    assert cause.kind == "oom"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sglang-eagle-cpu", True),
        ("sglang-port", True),
        ("vllm-oom-load", True),
        ("vllm-port", False),  # ends by itself
    ],
)
def test_doomed(name: str, expected: bool) -> None:
    assert doomed(read(name)) is expected


def test_progress_bars_and_bad_bytes() -> None:
    log = "Loading: 10%\rLoading: 20%\r\ufffd\nRuntimeError: Found no NVIDIA driver on your system."
    cause = diagnose(log, "vllm", speculative=False)
    assert cause
    assert cause.kind == "no_gpu"


def test_empty_log() -> None:
    assert diagnose("", "vllm", speculative=False) is None
