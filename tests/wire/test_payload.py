import msgspec
import pytest

from bench_client.records import Api, Sampling
from bench_client.wire.payload import Dialect, max_events, request_body
from tests.factories import plan, planned


def body(dialect: Dialect, api: Api = "chat", **sampling: object) -> dict[str, object]:
    whole = plan(api=api, sampling=msgspec.structs.replace(Sampling(), **sampling))
    said: dict[str, object] = msgspec.json.decode(request_body(planned(), whole, "m", dialect))
    return said


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_transformers_serve_gets_only_what_it_takes(api: Api) -> None:
    """It answers a field that it does not know with status 422."""
    said = body("transformers", api, temperature=0.0)
    prompt = "messages" if api == "chat" else "prompt"
    assert said.keys() == {"model", prompt, "max_tokens", "temperature", "seed", "stream"}


@pytest.mark.parametrize(("temperature", "samples"), [(0.0, False), (0.6, True)])
def test_transformers_serve_goes_on_past_the_end(temperature: float, samples: bool) -> None:
    said = body("transformers", temperature=temperature, ignore_eos=True)
    assert "ignore_eos" not in said
    settings = msgspec.json.decode(str(said["generation_config"]))
    assert settings == {"eos_token_id": -1, "do_sample": samples}
    own = {"generation_config": '{"eos_token_id": 7}'}
    assert body("transformers", ignore_eos=True, extra_body=own).items() >= own.items()


def test_sampling_params_are_added_to() -> None:
    said = body("sglang", "generate", temperature=0.3, extra_body={"sampling_params": {"top_k": 5}})
    params = said["sampling_params"]
    assert params == {"temperature": 0.3, "max_new_tokens": planned().max_tokens, "top_k": 5}
    assert "sampling_params" not in body("sglang", extra_body={"top_k": 5})


def test_others_are_asked_by_name() -> None:
    said = body("vllm", ignore_eos=True)
    assert said["ignore_eos"] is True
    assert "generation_config" not in said


def test_an_answer_may_be_long_but_not_endless() -> None:
    limit = max_events(planned(max_tokens=50), plan())
    assert limit is not None
    assert 50 * 8 < limit < 50 * 100
    several = msgspec.structs.replace(Sampling(), extra_body={"n": 4000})
    assert max_events(planned(), plan(sampling=several)) is None
