"""The replay for test_sglang_figures.py: sglang.bench_serving without a network and a clock.

SGLang's own Python runs this file, so nothing of ours is imported.
"""

import asyncio
import contextlib
import importlib
import io
import json
import sys
import types
from collections.abc import AsyncIterator
from typing import Any


class Replay:
    """aiohttp, requests and time of one case: now is where its streams have got to, in seconds."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.case, self.now, self.waiting = case, 0.0, list(case["requests"])

    def ClientSession(self, **settings: Any) -> "Replay":
        return self

    def ClientTimeout(self, **settings: Any) -> None:
        return None

    def perf_counter(self) -> float:
        return self.now

    def get(self, url: str, **settings: Any) -> Any:
        """The GET of /server_info."""
        info = {"internal_states": [{"avg_spec_accept_length": self.case["accept_length"]}]}
        return types.SimpleNamespace(status_code=200, json=lambda: info)

    async def __aenter__(self) -> "Replay":
        """A session is one request; nothing here waits, so each runs to its end before the next."""
        self.request = self.waiting.pop(0)
        self.now = self.request["sent"]
        return self

    async def __aexit__(self, *error: object) -> None:
        """What the tool does after the last one takes no time."""
        if not self.waiting:
            self.now = self.case["duration"]

    def post(self, url: str, json: dict[str, Any], headers: dict[str, str]) -> "Reply":
        """The prompt is the number of the request."""
        prompt = json.get("text") or json.get("prompt") or json["messages"][0]["content"]
        assert self.request is self.case["requests"][int(prompt)]
        return Reply(self, self.request, url.rpartition("/")[2])


class Reply:
    """One response: its lines, each at its time, with the running count that a server may give."""

    def __init__(self, replay: Replay, request: dict[str, Any], path: str) -> None:
        self.replay, self.request, self.path = replay, request, path
        self.status, self.reason = (200, "OK") if request["events"] else (500, "Internal Error")
        self.content = self.lines()

    async def __aenter__(self) -> "Reply":
        return self

    async def __aexit__(self, *error: object) -> None:
        return None

    async def text(self) -> str:
        return "no slot"

    async def lines(self) -> AsyncIterator[bytes]:
        total = 0
        for at, count in self.request["events"]:
            self.replay.now = at
            total += count
            counts = {"prompt_tokens": self.request["input"], "completion_tokens": total}
            said: dict[str, Any] = {"text": " by" * total, "meta_info": counts}
            if self.path == "completions":
                piece = " by" * count
                choice = {"text": piece, "delta": {"content": piece}}
                said = {"choices": [choice], "usage": counts}
            yield f"data: {json.dumps(said)}\n".encode()
            yield b"\n"
        self.replay.now = self.request["done"]
        yield b"data: [DONE]\n"


class Given:
    """Its command line: every option that is not set is off."""

    def __init__(self, **options: Any) -> None:
        self.__dict__ |= options

    def __getattr__(self, name: str) -> None:
        return None


def replayed(serving: Any, row: Any, tokenizer: Any, case: dict[str, Any]) -> dict[str, Any]:
    """What the tool prints and writes of one case."""
    replay = Replay(case)
    serving.aiohttp = serving.requests = serving.time = replay
    paths = {"sglang": "generate", "sglang-oai-chat": "v1/chat/completions"}
    paths["vllm-chat"] = paths["sglang-oai-chat"]
    rows = [
        row(prompt=f"{number}", prompt_len=request["input"], output_len=request["asked"])
        for number, request in enumerate(case["requests"])
    ]
    given = {"backend": case["backend"], "dataset_name": "sharegpt", "output_file": "/dev/null"}
    serving.set_global_args(Given(**given, top_p=1.0, temperature=0.0, top_logprobs_num=0))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        made = serving.benchmark(
            backend=case["backend"],
            api_url=f"http://none/{paths.get(case['backend'], 'v1/completions')}",
            base_url="http://none",
            model_id="rig",
            tokenizer=tokenizer,
            input_requests=rows,
            request_rate=float("inf"),
            max_concurrency=case["concurrency"],
            disable_tqdm=True,
            lora_names=[],
            lora_request_distribution=None,
            lora_zipf_alpha=None,
            extra_request_body={},
            profile=False,
            warmup_requests=0,
        )
        result = asyncio.run(made)
    lines = printed.getvalue().splitlines()
    first = next(n for n, line in enumerate(lines) if " Serving Benchmark Result " in line)
    return {"block": "\n".join(["", *lines[first:], ""]), "result": result}


def replay_all() -> None:
    """Cases by name from standard input; what the tool makes of them to standard output."""
    serving = importlib.import_module("sglang.benchmark.serving")
    row = importlib.import_module("sglang.benchmark.datasets.common").DatasetRow
    tokenizer = importlib.import_module("sglang.benchmark.utils").get_tokenizer(sys.argv[1])
    cases = json.load(sys.stdin)
    made = {name: replayed(serving, row, tokenizer, case) for name, case in cases.items()}
    sys.stdout.write("\n" + json.dumps(made, default=float))


if __name__ == "__main__":
    replay_all()
