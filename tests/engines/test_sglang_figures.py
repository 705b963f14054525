"""`report --sglang` and `--sglang-jsonl` against sglang.bench_serving, told the same answers.

Its stream readers, its `calculate_metrics`, its print and its output run in SGLang's own Python
(`make engines`). Only the network and the clock are replaced: lines arrive when our records say
that they did. An event of k tokens carries k pieces that its tokenizer, the rig's, knows.
"""

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench_client.measure.figures import Summary
from bench_client.measure.summary import summarize
from bench_client.records import Accept, Api, Events, Failure, Load, RequestRecord, Run, Server
from bench_client.report.bench_figures import backend
from bench_client.report.sglang_block import sglang_block
from bench_client.report.sglang_jsonl import sglang_jsonl
from bench_client.run.store import load_run
from tests.factories import header, plan, record

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

PYTHON = Path(".engines/sglang/bin/python")
TOKENIZER = Path(".engines/rig/target")
H200 = Path("results/h200-rigged")
MS = 1_000_000
SETTINGS = {"tag", "dataset_name", "server_info"}  # what a run is called, not what it gave
BACKENDS: tuple[tuple[str, Api], ...] = (
    ("sglang", "generate"),
    ("sglang", "completions"),
    ("sglang", "chat"),
    ("vllm", "completions"),
    ("vllm", "chat"),
)


def case_of(run: Run, summary: Summary) -> dict[str, Any]:
    """The run as a server's answers, in seconds since its first request could be sent."""
    speculation = summary.speculation
    return {
        "backend": backend(run),
        "accept_length": speculation.accept_length if speculation else None,
        "duration": summary.duration_s,
        "concurrency": run.header.plan.load.concurrency,
        "requests": [
            {
                "sent": (each.sent_ns or 0) / 1e9,
                "done": (each.done_ns or 0) / 1e9,
                "input": each.input_tokens,
                "asked": 4096,
                "events": [
                    (at / 1e9, tokens)
                    for at, tokens in zip(each.events.at_ns, each.events.tokens, strict=True)
                ],
            }
            for each in run.records
        ],
    }


def h200(arm: str, api: Api) -> Run:
    """A run on an H200, as if its answers had come over `api`."""
    (path,) = H200.glob(f"*prompts-{arm}")
    run = load_run(path)
    header = run.header
    changed = msgspec.structs.replace(header, plan=msgspec.structs.replace(header.plan, api=api))
    return msgspec.structs.replace(run, header=changed)


def at_once(engine: str, api: Api, *, speculates: bool) -> Run:
    """Seven answers at once, of steps of 1 to 4 tokens, some joined, and one that failed."""
    rng = random.Random(7)
    load = Load(kind="closed", concurrency=8)
    head = header(
        plan=plan(load=load, api=api),
        server=Server(name="a", url="http://127.0.0.1:1", engine=engine),
    )
    records = tuple(answer(rng, index, api, speculates) for index in range(7))
    return Run(header=head, records=(*records, failed(7)))


def answer(rng: random.Random, index: int, api: Api, speculates: bool) -> RequestRecord:
    sent = index * 137
    at, tokens = [sent + rng.randint(60, 400)], [rng.randint(1, 2)]
    for _ in range(rng.randint(20, 90)):
        at.append(at[-1] + rng.randint(1, 60))
        # A native stream may send text of which the count says nothing new.
        tokens.append(rng.choice((0, 1, 1, 2, 4) if api == "generate" else (1, 1, 2, 4)))
    steps = len(at) - 1
    return record(
        id=f"r{index}",
        prompt_index=index,
        sent_ns=sent * MS,
        first_token_ns=at[0] * MS,
        last_token_ns=at[-1] * MS,
        done_ns=(at[-1] + rng.randint(1, 9)) * MS,
        input_tokens=rng.randint(3, 900),
        output_tokens=sum(tokens),
        events=Events(tuple(each * MS for each in at), tuple(tokens)),
        accept=Accept(source="payload", verify_steps=steps) if speculates else None,
    )


def failed(index: int) -> RequestRecord:
    return record(
        id=f"r{index}",
        prompt_index=index,
        sent_ns=50 * MS,
        first_token_ns=None,
        last_token_ns=None,
        done_ns=55 * MS,
        outcome="failed",
        failure=Failure("http_500", "Internal Error: no slot"),
        input_tokens=9,
        output_tokens=None,
        events=Events(),
    )


RUNS = {
    **{f"h200-{arm}-{api}": (arm, api) for arm in ("sglang-eagle3",) for _, api in BACKENDS[:3]},
    **{f"h200-{arm}-chat": (arm, "chat") for arm in ("sglang", "vllm", "vllm-eagle3")},
    "h200-vllm-eagle3-completions": ("vllm-eagle3", "completions"),
}
AT_ONCE = {
    f"{engine}-{api}-{'eagle3' if speculates else 'plain'}": (engine, api, speculates)
    for engine, api in BACKENDS
    for speculates in (True, False)
}


@pytest.fixture(scope="module")
def ours() -> dict[str, tuple[Run, Summary]]:
    runs = {name: h200(*arm) for name, arm in RUNS.items()}
    runs |= {
        name: at_once(engine, api, speculates=speculates)
        for name, (engine, api, speculates) in AT_ONCE.items()
    }
    return {name: (run, summarize(run)) for name, run in runs.items()}


@pytest.fixture(scope="module")
def theirs(ours: dict[str, tuple[Run, Summary]]) -> dict[str, Any]:
    cases = {name: case_of(run, summary) for name, (run, summary) in ours.items()}
    done = subprocess.run(
        [PYTHON, "-P", "tests/engines/test_sglang_replay.py", TOKENIZER],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=250,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", [*RUNS, *AT_ONCE])
def test_the_block_is_what_it_prints(
    name: str, ours: dict[str, tuple[Run, Summary]], theirs: dict[str, Any]
) -> None:
    run, summary = ours[name]
    assert sglang_block(run, summary, strict=True) == theirs[name]["block"]


@pytest.mark.parametrize("name", [*RUNS, *AT_ONCE])
def test_every_figure_of_the_jsonl_is_its_own(
    name: str, ours: dict[str, tuple[Run, Summary]], theirs: dict[str, Any]
) -> None:
    made, real = json.loads(sglang_jsonl(*ours[name], details=True)), theirs[name]["result"]
    assert list(made) == list(real)
    for mine, their in zip(made["itls"], real["itls"], strict=True):
        assert mine == pytest.approx(their, rel=1e-9)
    for key in made.keys() - SETTINGS - {"itls", "ttfts", "generated_texts", "errors"}:
        their = real[key]
        same = pytest.approx(their, rel=1e-9) if isinstance(their, float) else their
        assert made[key] == same, key
