from pathlib import Path

import pytest

from server_launchers.facts import ServerFacts
from server_launchers.transformers_log import from_transformers_log

LOG = (Path(__file__).parents[1] / "fixtures/facts/transformers-5.19.0-cpu.log").read_text()
DEFAULTS = '{\n  "eos_token_id": 1582\n}'


def test_a_whole_log() -> None:
    assert from_transformers_log(LOG) == ServerFacts(
        engine_version="5.19.0",
        model="rig/target",
        dtype="bfloat16",
        context_length=8192,
        speculates=False,
        samples=False,
    )
    assert LOG.count('"dtype": "auto"') == 1  # what was asked for, which says nothing


def test_another_dtype_than_the_checkpoints_is_not_guessed() -> None:
    asked = LOG.replace('"dtype": "auto"', '"dtype": "float32"')
    assert from_transformers_log(asked).dtype is None


@pytest.mark.parametrize("said", ["[transformers] Loading Org/M@main", "Loading Org/M"])
def test_every_version_names_the_model(said: str) -> None:
    log = f"a warning\n{said}\nLoading weights:   0%|          | 0/91\n"
    assert from_transformers_log(log) == ServerFacts(model="Org/M")


def test_the_models_own_defaults_decide() -> None:
    assert LOG.count(DEFAULTS) == 1  # the last of the two that are logged
    own = DEFAULTS.replace("{", '{\n  "do_sample": true,\n  "prompt_lookup_num_tokens": 5,')
    found = from_transformers_log(LOG.replace(DEFAULTS, own))
    assert (found.samples, found.speculates) == (True, True)
    assert found.speculative == {
        "method": "prompt_lookup",
        "num_steps": 5,
        "topk": 1,
        "num_draft_tokens": 6,
    }


def test_a_log_that_says_nothing() -> None:
    assert from_transformers_log("INFO:     Started server process [7]\n") == ServerFacts()
