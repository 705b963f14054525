import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from server_launchers.eagle_server.settings import Settings, StartError
from server_launchers.presets import SettingsError, load
from server_launchers.resolve import resolve

from .building import built, settings, value


@pytest.mark.parametrize("name", ["vllm-eagle3", "sim-eagle3"])
@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({"spec_topk": 8}, "drafts a chain, not a tree: spec_topk must be 1"),
        ({"spec_steps": 3, "spec_draft_tokens": 32}, "3 steps verify 4 tokens, not 32"),
    ],
)
def test_engines_that_draft_chains_refuse_a_tree(name: str, tree: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        built(name, **tree)


def test_the_embedded_engine_takes_the_steps_asked_for() -> None:
    made = built("sim-eagle3", spec_steps=3, spec_draft_tokens=4)
    assert value(made, "--spec-steps") == "3"
    assert made.speculative_asked is not None
    assert made.speculative_asked["num_steps"] == 3
    with pytest.raises(SettingsError, match="--accept-en"):
        built("sim-eagle3", spec_steps=3, simulate_accept_length=2.0)


def test_vllm_needs_a_draft_length_for_any_model() -> None:
    made = built("vllm-eagle3", model="/models/other", draft_model="/models/head")
    config = json.loads(value(made, "--speculative-config") or "")
    assert config["num_speculative_tokens"] == 3
    assert config["model"] == "/models/head"


def test_simulated_acceptance() -> None:
    vllm = built("vllm-eagle3", simulate_accept_length=2.5)
    config = json.loads(value(vllm, "--speculative-config") or "")
    assert config["rejection_sample_method"] == "synthetic"
    assert config["synthetic_acceptance_length"] == 2.5
    assert vllm.simulated
    sglang = built("sglang-eagle3", "0.5.23", simulate_accept_length=2.5)
    assert sglang.env.items() >= {
        ("SGLANG_SIMULATE_ACC_LEN", "2.5"),
        ("SGLANG_SIMULATE_ACC_TOKEN_MODE", "real-draft-token"),
    }
    assert sglang.simulated
    assert not built("sglang", "0.5.23", simulate_accept_length=2.5).simulated


@pytest.mark.parametrize(
    ("name", "version", "overrides", "message"),
    [
        ("vllm-eagle3", None, {"simulate_accept_length": 4.5}, "choose 1 to 4"),
        ("sglang-eagle3", None, {"simulate_accept_length": 0.5}, "choose 1 to 4"),
        ("sglang-eagle3", "0.5.13", {"simulate_accept_length": 2}, "0.5.16 or later"),
        (
            "sglang-eagle3",
            None,
            {"simulate_accept_length": 2, "model": "llama-3.1-8b"},
            "chain only: set spec_topk to 1",
        ),
        ("transformers-eagle3", None, {"simulate_accept_length": 2}, "cannot simulate"),
    ],
)
def test_simulated_acceptance_that_cannot_be(
    name: str, version: str | None, overrides: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        built(name, version, **overrides)


def test_a_plain_arm_ignores_draft_options() -> None:
    plain = settings("sglang", draft_model="/h", spec_steps=5, simulate_accept_length=2)
    assert (plain.draft_model, plain.spec_steps, plain.simulate_accept_length) == (None,) * 3


def test_a_chain_follows_its_steps() -> None:
    assert settings("sglang-eagle3", spec_steps=5).spec_draft_tokens == 6
    with pytest.raises(SettingsError, match="5 steps verifies 6 tokens, not 32"):
        settings("sglang-eagle3", spec_steps=5, spec_draft_tokens=32)
    tree = settings("sglang-eagle3", spec_steps=5, spec_topk=8, spec_draft_tokens=32)
    assert (tree.spec_steps, tree.spec_topk, tree.spec_draft_tokens) == (5, 8, 32)


def test_sglang_takes_all_three_numbers_or_none() -> None:
    with pytest.raises(SettingsError, match="give all or none"):
        built("sglang-eagle3", model="/m", draft_model="/h", spec_steps=3)


TREES = ("sglang-eagle3", "transformers-eagle3")


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize(
    ("steps", "topk", "most"), [(3, 4, 37), (5, 8, 265), (8, 10, 711), (1, 4, 5)]
)
def test_a_tree_has_no_more_tokens_than_its_steps_make(
    name: str, steps: int, topk: int, most: int
) -> None:
    """EAGLE's server refuses the same trees, with the reason that torch.topk gives."""
    tree: dict[str, Any] = {"spec_steps": steps, "spec_topk": topk}
    assert settings(name, **tree, spec_draft_tokens=most).spec_draft_tokens == most
    said = rf"1 \+ topk \+ \(steps - 1\) \* topk\^2 = {most} tokens, not {most + 1}"
    with pytest.raises(SettingsError, match=said):
        settings(name, **tree, spec_draft_tokens=most + 1)
    served = Settings(model="m", draft_model="h", total_token=most, depth=steps - 1, top_k=topk)
    served.check()
    with pytest.raises(StartError):
        dataclasses.replace(served, total_token=most + 1).check()


@pytest.mark.parametrize("name", TREES)
def test_fewer_steps_can_make_a_presets_tree_impossible(name: str) -> None:
    with pytest.raises(SettingsError, match="has at most"):
        settings(name, model="llama-3.1-8b", spec_steps=1)


def test_a_tree_needs_its_size(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"needs its size: .*--spec-draft-tokens"):
        settings("sglang-eagle3", spec_topk=4)
    with pytest.raises(SettingsError, match="needs its size"):
        settings("sglang-eagle3", model="/m", draft_model="/h", spec_topk=4)
    with pytest.raises(SettingsError, match="needs its size"):
        settings("sglang-eagle3", model="llama-3.1-8b", spec_topk=4)
    presets = tmp_path / "x.toml"
    presets.write_text("[servers.x]\nengine = 'sglang'\nspeculative = true\nspec_topk = 8\n")
    with pytest.raises(SettingsError, match=r"server x: a tree .* needs its size"):
        resolve("x", load(presets), {})
    assert resolve("x", load(presets), {"spec_draft_tokens": 16}).spec_draft_tokens == 16
    assert settings("sglang", spec_topk=4).spec_topk is None  # the plain arm drafts nothing
