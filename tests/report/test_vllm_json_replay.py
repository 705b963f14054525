"""The replay for test_vllm_json_real.py: `vllm bench serve` without a network and a clock.

vLLM's own Python runs this file, so nothing of ours is imported.
"""

import asyncio
import contextlib
import importlib
import io
import json
import sys
from collections.abc import AsyncIterator
from typing import Any


class Replay:
    """aiohttp and time of one case: now is where its streams have got to, in seconds."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.case, self.now, self.waiting = case, 0.0, list(case["requests"])
        self.request: dict[str, Any] = {}

    ClientError = OSError

    def TCPConnector(self, **settings: Any) -> None:
        return None

    def ClientTimeout(self, **settings: Any) -> None:
        return None

    def ClientSession(self, **settings: Any) -> "Replay":
        return self

    async def close(self) -> None:
        return None

    def perf_counter(self) -> float:
        return self.now

    def get(self, url: str) -> "Reply":
        """GET /metrics, before and after."""
        counters = self.case["counters"][0 if self.waiting else 1]
        lines = "\n".join(f"{name} {value}" for name, value in counters.items())
        return Reply(self, {"events": [lines]})

    def post(self, url: str, json: dict[str, Any], headers: dict[str, str]) -> "Reply":
        return Reply(self, self.request)

    async def arrivals(self, rows: Any, rate: float, *settings: Any) -> AsyncIterator[Any]:
        """Stands in for the sleeps between requests: each is due when our record says."""
        for row, request in zip(rows, self.case["requests"], strict=True):
            self.now = request["due"]
            yield row, rate
        self.now = 0.0


class Reply:
    """One response, or the page of counters."""

    def __init__(self, replay: Replay, request: dict[str, Any]) -> None:
        self.replay, self.request, self.content = replay, request, self
        self.status, self.reason = (200, "OK") if request["events"] else (500, "Internal Error")

    async def __aenter__(self) -> "Reply":
        return self

    async def __aexit__(self, *error: object) -> None:
        return None

    async def text(self) -> str:
        lines: str = self.request["events"][0]
        return lines

    async def iter_any(self) -> AsyncIterator[bytes]:
        total = 0
        for at, count in self.request["events"]:
            self.replay.now = at
            total += count
            piece = " by" * count
            choice = {"text": piece, "delta": {"content": piece}}
            yield f"data: {json.dumps({'choices': [choice]})}\n\n".encode()
        self.replay.now = self.request["done"]
        usage = {"prompt_tokens": self.request["input"], "completion_tokens": total}
        yield f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n".encode()
        yield b"data: [DONE]\n\n"


def replayed(serve: Any, functions: Any, row: Any, case: dict[str, Any]) -> Any:
    """What the tool writes of one case."""
    replay = Replay(case)
    serve.aiohttp = serve.time = functions.time = replay
    serve.get_request = replay.arrivals
    chat = case["api"] == "chat"
    real = functions.async_request_openai_chat_completions
    real = real if chat else functions.async_request_openai_completions

    async def one(**given: Any) -> Any:
        """Nothing here waits, so each runs to its end before the next."""
        replay.request = replay.waiting.pop(0)
        replay.now = replay.request["sent"]
        output = await real(**given)
        replay.now = replay.now if replay.waiting else case["duration"]
        return output

    serve.ASYNC_REQUEST_FUNCS["replay"] = one
    rows = [
        row(prompt=" by", prompt_len=request["input"], expected_output_len=4096)
        for request in case["requests"]
    ]
    families = ["ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue"]
    with contextlib.redirect_stdout(io.StringIO()):
        made = serve.benchmark(
            task_type=serve.TaskType.GENERATION,
            endpoint_type="replay",
            api_url=f"http://none/v1/{'chat/' if chat else ''}completions",
            base_url="http://none",
            model_id="rig",
            model_name="rig",
            tokenizer=len,
            input_requests=rows,
            logprobs=None,
            request_rate=case["rate"] or float("inf"),
            burstiness=1.0,
            disable_tqdm=True,
            num_warmups=0,
            profile=False,
            selected_percentile_metrics=families,
            selected_percentiles=[90, 95, 99],
            ignore_eos=False,
            goodput_config_dict={},
            max_concurrency=case["concurrency"],
            lora_modules=None,
            extra_headers=None,
            extra_body=None,
            ready_check_timeout_sec=0,
        )
        return asyncio.run(made)


def replay_all() -> None:
    """Cases by name from standard input; what the tool makes of them to standard output."""
    serve = importlib.import_module("vllm.benchmarks.serve")
    functions = importlib.import_module("vllm.benchmarks.lib.endpoint_request_func")
    row = importlib.import_module("vllm.benchmarks.datasets").SampleRequest
    cases = json.load(sys.stdin)
    made = {name: replayed(serve, functions, row, case) for name, case in cases.items()}
    sys.stdout.write("\n" + json.dumps(made, default=float))


if __name__ == "__main__":
    replay_all()
