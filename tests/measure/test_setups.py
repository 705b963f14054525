"""What compared runs ran on and with: told where both say so and it differs, else not."""

from typing import Any

import pytest

from bench_client.measure.compare import compare
from bench_client.records import Load, Run, Sampling
from tests import factories

from .arms import arm, changed
from .runs import imported, run

H200 = {"host": "one", "gpus": [{"name": "NVIDIA H200"}]}


def warnings(baseline: Any, other: Any) -> str:
    return "; ".join(compare(baseline, other).warnings)


@pytest.mark.parametrize(
    ("mine", "theirs", "said"),
    [
        ({"engine_version": "0.5.16"}, {"engine_version": "0.5.23"}, "engine versions differ"),
        ({"draft_model": "a/head"}, {"draft_model": "a/other"}, "draft models differ: head and"),
        ({"simulated": True}, {}, "the baseline is simulated and the other run is not"),
        (
            {"facts": {"dtype": "torch.bfloat16"}},
            {"facts": {"dtype": "float16"}},
            "the dtypes differ: bfloat16 and float16",
        ),
        (
            {"facts": {"attention_backend": "fa3"}},
            {"facts": {"attention_backend": "triton"}},
            "the attention backends differ: fa3 and triton",
        ),
    ],
)
def test_servers(mine: dict[str, Any], theirs: dict[str, Any], said: str) -> None:
    plain, other = arm(server=mine), arm(server=theirs)
    assert said in warnings(plain, other)
    assert compare(plain, plain).warnings == ()
    if not said.startswith("the baseline is sim"):
        assert said not in warnings(plain, arm())  # nothing is known of the other


def test_versions_and_kernels_of_unlike_engines_are_no_news() -> None:
    sglang = {"engine": "sglang", "engine_version": "0.5.16", "facts": {"attention_backend": "fa3"}}
    vllm = {"engine": "vllm", "engine_version": "0.24.0", "facts": {"attention_backend": "FLASH"}}
    assert warnings(arm(server=sglang), arm(server=vllm)) == ""


def launched(environment: dict[str, Any]) -> Run:
    return arm(environment=environment, server={"argv": ("serve",)})


def test_machines() -> None:
    plain = launched(H200)
    other = {**H200, "gpus": [{"name": "NVIDIA L40"}], "host": "two"}
    said = warnings(plain, launched(other))
    assert "the GPUs differ: NVIDIA H200 and NVIDIA L40" in said
    assert "hosts differ" not in said
    assert "the hosts differ: one and two" in warnings(plain, launched({**H200, "host": "two"}))
    assert warnings(plain, launched({})) == ""
    assert warnings(plain, launched({**H200, "gpus": [{"name": "NVIDIA H200"}] * 8})) == ""
    # A client's GPUs say nothing of a server elsewhere.
    assert "GPUs differ" not in warnings(arm(environment=H200), arm(environment=other))


def test_clients_and_what_they_ask() -> None:
    told = warnings(
        arm(client={"transport": "wire", "stamp_source": "kernel"}),
        arm(client={"transport": "httpx", "stamp_source": "user"}),
    )
    assert "the transports differ: wire with kernel stamps and httpx with user stamps" in told
    body = {"sampling": Sampling(extra_body={"top_p": 0.1})}
    assert "the request bodies differ" in warnings(arm(), changed(arm(), "plan", **body))
    assert "the seeds differ (0 and 7)" in warnings(arm(), changed(arm(), "plan", seed=7))
    greedy = {"sampling": Sampling(temperature=0.0)}
    assert warnings(arm(plan=greedy), arm(plan={**greedy, "seed": 7})) == ""


def test_loads_of_another_tools_run() -> None:
    mine = factories.plan(load=Load(kind="closed", concurrency=1))
    burst = factories.plan(load=Load(kind="open"))
    unknown = factories.plan(load=Load(kind="closed"))
    figures = {"output_tok_per_s": (1.0, 2.0)}
    theirs = imported(figures)
    for plan, said in ((burst, True), (unknown, False), (mine, False)):
        header = {"load": plan.load}
        found = warnings(run([]), changed(theirs, "plan", **header))
        assert ("the loads differ: concurrency 1 and all requests at once" in found) is said
