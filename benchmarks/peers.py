"""The clients that the benchmark compares: how each is found, run, and read."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from bench_client.records import RequestRecord

TOKENS = 128
PROMPT_TOKENS = 16


@dataclass(frozen=True)
class Task:
    """One client's run: `requests` answers of TOKENS tokens, `streams` at a time.

    `engines` holds the environments of `make engines` and build_peers.sh; `folder` is the run's.
    `workers` is for ours alone.
    """

    url: str
    streams: int
    engines: Path
    folder: Path
    workers: int = 1

    @property
    def requests(self) -> int:
        """Three waves of streams."""
        return 3 * self.streams

    @property
    def tokenizer(self) -> str:
        """A small tokenizer, which the peers cannot do without."""
        return str((self.engines / "rig" / "target").absolute())


class Figures(NamedTuple):
    """What a client says of its run, ms. Null: it does not say, or says another thing."""

    ttft_mean: float | None
    ttft_p99: float | None
    gap_p99: float | None


@dataclass(frozen=True)
class Client:
    """`program` is below the engines' folder, or absolute."""

    name: str
    program: Path
    command: Callable[[Task], list[str]]
    read: Callable[[Task], Figures]
    environment: tuple[tuple[str, str], ...]


def _ours(task: Task) -> list[str]:
    prompts = task.folder / "prompts.jsonl"
    lines = [json.dumps({"prompt": f"say end {index}"}) for index in range(task.requests)]
    prompts.write_text("\n".join(lines) + "\n")
    return [
        *(
            "-m",
            "bench_client",
            "run",
            "--url",
            task.url,
            "--scenario",
            str(prompts),
            "--results",
            str(task.folder),
        ),
        *("--concurrency", str(task.streams), "--max-tokens", str(TOKENS), "--ignore-eos"),
        *("--api", "completions", "--warmup", "0", "--no-calibrate", "--quiet"),
        *("--workers", str(task.workers)),
    ]


def our_records(task: Task) -> tuple[int, list[RequestRecord]]:
    """When the run began (CLOCK_REALTIME, ns) and its records."""
    header = next(task.folder.glob("*/run.json"))
    lines = (header.parent / "requests.jsonl").read_bytes().splitlines()
    decoder = msgspec.json.Decoder(RequestRecord)
    return json.loads(header.read_bytes())["began_unix_ns"], [decoder.decode(x) for x in lines]


def _our_figures(task: Task) -> Figures:
    """From the records: the summary gives no 99th percentile of three requests."""
    _, records = our_records(task)
    ttft = [(r.first_token_ns or 0) - (r.sent_ns or 0) for r in records]
    gaps = np.concatenate([np.diff(r.events.at_ns) for r in records])
    p99 = [float(np.percentile(values, 99)) / 1e6 for values in (ttft, gaps)]
    return Figures(float(np.mean(ttft)) / 1e6, *p99)


def _vllm(task: Task) -> list[str]:
    return [
        *("bench", "serve", "--backend", "openai", "--base-url", task.url),
        *("--endpoint", "/v1/completions", "--model", "tiny", "--tokenizer", task.tokenizer),
        *("--dataset-name", "random", "--random-input-len", str(PROMPT_TOKENS)),
        *("--random-output-len", str(TOKENS), "--num-prompts", str(task.requests)),
        *("--max-concurrency", str(task.streams), "--ignore-eos", "--disable-tqdm"),
        *("--percentile-metrics", "ttft,itl", "--metric-percentiles", "99"),
        *("--ready-check-timeout-sec", "0", "--save-result", "--result-dir", str(task.folder)),
        *("--result-filename", "result.json"),
    ]


def _sglang(module: str) -> Callable[[Task], list[str]]:
    def command(task: Task) -> list[str]:
        return [
            *("-m", module, "--backend", "sglang-oai", "--base-url", task.url),
            *("--model", "tiny", "--tokenizer", task.tokenizer, "--dataset-name", "random-ids"),
            *("--random-input-len", str(PROMPT_TOKENS), "--random-output-len", str(TOKENS)),
            *("--random-range-ratio", "1.0", "--num-prompts", str(task.requests)),
            *("--max-concurrency", str(task.streams), "--disable-tqdm", "--warmup-requests", "1"),
            *("--output-file", str(task.folder / "result.json")),
        ]

    return command


def _bench_serve_figures(task: Task) -> Figures:
    """Results of vLLM and SGLang have the same names; on these backends ITL is the raw gap."""
    found = json.loads((task.folder / "result.json").read_bytes())
    return Figures(found["mean_ttft_ms"], found["p99_ttft_ms"], found["p99_itl_ms"])


def _guidellm(task: Task) -> list[str]:
    path = "/v1/completions"
    return [
        "run",
        *("--backend", f"kind=openai_http,target={task.url},model=tiny,request_format={path}"),
        *("--tokenizer", f"kind=huggingface_auto,model={task.tokenizer}"),
        "--data",
        f"kind=synthetic_text,prompt_tokens={PROMPT_TOKENS},output_tokens={TOKENS}",
        *("--profile", f"kind=concurrent,streams={task.streams}"),
        *("--constraint", f"kind=max_requests,count={task.requests}"),
        "--disable-console-interactive",
        *("--output", f"kind=json,path={task.folder / 'result.json'}"),
    ]


def _guidellm_figures(task: Task) -> Figures:
    """It keeps no gaps: its ITL is a mean over each request."""
    found = json.loads((task.folder / "result.json").read_bytes())
    ttft = found["benchmarks"][0]["metrics"]["time_to_first_token_ms"]["successful"]
    return Figures(ttft["mean"], ttft["percentiles"]["p99"], None)


def _aiperf(task: Task) -> list[str]:
    return [
        *("profile", "-m", "tiny", "--url", task.url, "--endpoint-type", "completions"),
        *("--streaming", "--tokenizer", task.tokenizer, "--use-server-token-count"),
        *("--isl", str(PROMPT_TOKENS), "--osl", str(TOKENS), "--ui", "none"),
        *("--concurrency", str(task.streams), "--request-count", str(task.requests)),
        *("--extra-inputs", "ignore_eos:true", "--output-artifact-dir", str(task.folder)),
    ]


def _aiperf_figures(task: Task) -> Figures:
    """Its ITL, too, is a mean over each request."""
    path = next(task.folder.rglob("profile_export_aiperf.json"))
    ttft: dict[str, Any] = json.loads(path.read_bytes())["time_to_first_token"]
    return Figures(ttft["avg"], ttft["p99"], None)


_OFFLINE = (("HF_HUB_OFFLINE", "1"), ("TOKENIZERS_PARALLELISM", "false"))
_SGLANG = Path("sglang/bin/python")
_VLLM = Path("vllm/bin/vllm")
_RUST_CLIENT = _sglang("sglang.benchmark.rust_client")
_SERVING = _sglang("sglang.benchmark.serving")
_GUIDELLM = Path("peers-guidellm/bin/guidellm")
_AIPERF = Path("peers-aiperf/bin/aiperf")

OURS = Client("bench-client", Path(sys.executable), _ours, _our_figures, ())
RUST = Client("sglang Rust client", _SGLANG, _RUST_CLIENT, _bench_serve_figures, _OFFLINE)
CLIENTS = (
    OURS,
    RUST,
    Client("sglang bench_serving", _SGLANG, _SERVING, _bench_serve_figures, _OFFLINE),
    Client("vllm bench serve", _VLLM, _vllm, _bench_serve_figures, _OFFLINE),
    Client("guidellm", _GUIDELLM, _guidellm, _guidellm_figures, _OFFLINE),
    Client("aiperf", _AIPERF, _aiperf, _aiperf_figures, ()),
)
