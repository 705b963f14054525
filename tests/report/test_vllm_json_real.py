"""`--vllm-json` against `vllm bench serve` itself, told the same answers.

Its stream readers, `calculate_metrics` and result run in vLLM's own Python (`make engines`). Only
the network and the clock are replaced: events arrive when our records say that they did. There is
no role-only event, which our records do not keep.
"""

import json
import math
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench_client.measure.summary import summarize
from bench_client.records import Load, Run
from bench_client.report.vllm_json import vllm_json
from tests.engines.test_sglang_figures import at_once, h200

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

PYTHON = Path(".engines/vllm/bin/python")


def case_of(run: Run) -> dict[str, Any]:
    """The run as a server's answers, in seconds since its beginning."""
    load, server = run.header.plan.load, run.header.server
    closed = load.kind == "closed"
    return {
        "api": run.header.plan.api,
        "counters": [server.counters_before or {}, server.counters_after or {}],
        "duration": summarize(run).duration_s,
        "concurrency": load.concurrency if closed else load.max_concurrency,
        "rate": load.request_rate,
        "requests": [
            {
                "due": 0.0 if closed else each.scheduled_ns / 1e9,
                "sent": (each.sent_ns or 0) / 1e9,
                "done": (each.done_ns or 0) / 1e9,
                "input": each.input_tokens,
                "events": [
                    (at / 1e9, tokens)
                    for at, tokens in zip(each.events.at_ns, each.events.tokens, strict=True)
                ],
            }
            for each in run.records
        ],
    }


def under(load: Load, api: str) -> Run:
    """Overlapping answers of which one failed; in an open loop each sent 70 ms after it was due."""
    run = at_once("vllm", "chat" if api == "chat" else "completions", speculates=False)
    head = run.header
    late_ns = 0 if load.kind == "closed" else 70_000_000
    records = tuple(
        msgspec.structs.replace(
            each,
            scheduled_ns=(each.sent_ns or 0) - late_ns,
            output_text=" by" * (each.output_tokens or 0),
        )
        for each in run.records
    )
    changed = msgspec.structs.replace(head, plan=msgspec.structs.replace(head.plan, load=load))
    return Run(header=changed, records=records)


RUNS = {
    "h200-plain": h200("vllm", "chat"),
    "h200-eagle3": h200("vllm-eagle3", "chat"),
    "h200-sglang-eagle3": h200("sglang-eagle3", "completions"),
    "closed": under(Load(kind="closed", concurrency=8), "completions"),
    "burst": under(Load(kind="open"), "chat"),
    "capped": under(Load(kind="open", request_rate=8.0, max_concurrency=4), "chat"),
}
TEXTS = {"generated_texts", "errors"}


@pytest.fixture(scope="module")
def theirs() -> dict[str, Any]:
    done = subprocess.run(
        [PYTHON, "-P", "tests/report/test_vllm_json_replay.py"],
        input=json.dumps({name: case_of(run) for name, run in RUNS.items()}),
        capture_output=True,
        text=True,
        timeout=250,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", RUNS)
def test_every_value_is_the_tools_own(name: str, theirs: dict[str, Any]) -> None:
    run = RUNS[name]
    made = json.loads(vllm_json(run, summarize(run), details=True))
    real = theirs[name]
    settings = list(made)[: list(made).index("duration")]
    assert made.keys() - settings == real.keys()
    for key in real.keys() - TEXTS:
        for mine, their in zip(_flat(made[key]), _flat(real[key]), strict=True):
            near = isinstance(their, float) and math.isclose(mine, their, abs_tol=1e-12)
            assert near or mine == their, key
    if not name.startswith("h200"):  # whose texts are not kept
        assert made["generated_texts"] == real["generated_texts"]


def _flat(value: Any) -> list[Any]:
    """Lists of lists laid end to end, with the length of each."""
    if not isinstance(value, list):
        return [value]
    return [len(value), *(part for each in value for part in _flat(each))]
