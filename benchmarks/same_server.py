"""The same running server measured by `sglang.bench_serving` and by bench-client, side by side.

    python -m benchmarks.same_server --model DIR             # launches SGLang on it
    python -m benchmarks.same_server --url URL --model DIR   # DIR for its tokenizer
    python -m benchmarks.same_server --model DIR --api chat  # against backend sglang-oai-chat

Both send the same prompts, one after another (bench_serving shuffles them), in the order theirs,
ours, ours, theirs, so that whatever drifts weighs on both alike; figures are means of two runs.
Differences are printed with the reason that is known for each.
"""

import json
import subprocess
import sys
import tempfile
from functools import reduce
from pathlib import Path
from statistics import fmean
from typing import Any

import click

from bench_client.imports.files import import_file
from bench_client.measure.summary import summarize
from bench_client.run.fold import fold
from server_launchers.launch import prepare
from server_launchers.presets import load
from server_launchers.process import ServerProcess

REQUESTS, WORDS, OUTPUT = 8, 40, 64

# Dotted names in summary.json, and why the two tools may differ in them.
REASONS = {
    "requests.ok": "bench_serving counts an error inside a 200 stream as a success",
    "input_tokens": "the same prompts: bench_serving counts them itself, without a chat template",
    "output_tokens": "bench_serving takes the requested length where the server sends no usage",
    "ttft_ms.mean": "bench_serving opens a connection for each request and stamps in the program",
    "e2e_ms.mean": "bench_serving's ends with the stream (usage, [DONE]), ours with the last token",
    "throughput.output_tok_per_s": "its duration includes the GET of /server_info at the end",
    "concurrency.mean": "it divides the sum of latencies by that longer duration",
}

# API -> its --backend, the figure that it prints as ITL, and what that is.
BACKENDS = {
    "generate": ("sglang", "itl_ms.mean", "both spread a chunk's gap over its tokens"),
    "chat": ("sglang-oai-chat", "chunk_gap_ms.mean", "gaps between chunks, printed as ITL"),
}


@click.command()
@click.option("--url", help="A server that runs already; without it SGLang is launched.")
@click.option("--model", required=True, help="A folder with the model and its tokenizer.")
@click.option("--api", type=click.Choice(list(BACKENDS)), default="generate", show_default=True)
@click.option("--sglang-python", default=".engines/sglang/bin/python", show_default=True)
def main(url: str | None, model: str, api: str, sglang_python: str) -> None:
    """Measure one server with both tools and print what differs, and why."""
    backend, itl, meaning = BACKENDS[api]
    asked = [sglang_python, "-m", "sglang.bench_serving", "--backend", backend]
    asked += ["--tokenizer", model]
    with tempfile.TemporaryDirectory() as folder:
        if url:
            theirs, ours = _both(url, asked, api, Path(folder))
        else:
            command = prepare("sglang", load(), {"model": model, "concurrency": 1})
            with ServerProcess.start(command, Path(folder) / "server.log") as server:
                server.wait_ready()
                theirs, ours = _both(command.url, asked, api, Path(folder))
    click.echo("| figure | sglang.bench_serving | bench-client | ours / theirs | why |")
    click.echo("| --- | --- | --- | --- | --- |")
    for name, reason in (REASONS | {itl: meaning}).items():
        mine, their = _at(ours, name), _at(theirs, name)
        ratio = f"{mine / their:.3f}" if mine is not None and their else "-"
        click.echo(f"| {name} | {_shown(their)} | {_shown(mine)} | {ratio} | {reason} |")


def _prompts() -> list[str]:
    return [" ".join(f"w{n * 7 + k}" for k in range(WORDS)) for n in range(REQUESTS)]


def _both(url: str, asked: list[str], api: str, folder: Path) -> tuple[list[Any], list[Any]]:
    theirs, ours = [], []
    for number, tool in enumerate("ABBA"):
        place = folder / str(number)
        place.mkdir()
        if tool == "A":
            theirs.append(_sglang([*asked, "--base-url", url], place))
        else:
            ours.append(_bench_client(url, api, place))
    return theirs, ours


def _sglang(asked: list[str], folder: Path) -> Any:
    dataset = folder / "sharegpt.json"  # the format in which it takes given prompts
    turns = [[{"value": prompt}, {"value": "never looked at"}] for prompt in _prompts()]
    dataset.write_text(json.dumps([{"conversations": each} for each in turns]))
    command = [*asked, "--dataset-name", "sharegpt", "--disable-tqdm"]
    command += ["--dataset-path", str(dataset), "--sharegpt-output-len", str(OUTPUT)]
    command += ["--num-prompts", str(REQUESTS), "--flush-cache"]
    command += ["--max-concurrency", "1", "--warmup-requests", "1", "--seed", "1"]
    command += ["--output-file", str(folder / "bench_serving.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"bench_serving failed:\n{done.stderr[-2000:]}")
    (run,) = import_file("bench_serving", done.stdout)
    return summarize(run)


def _bench_client(url: str, api: str, folder: Path) -> Any:
    prompts = folder / "same.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in _prompts()))
    command = [sys.executable, "-m", "bench_client", "run", "--url", url, "--api", api]
    command += ["--scenario", str(prompts), "--max-tokens", str(OUTPUT), "--ignore-eos"]
    command += ["--temperature", "0", "--results", str(folder / "results"), "--quiet"]
    subprocess.run(command, check=False)
    (found,) = (folder / "results").iterdir()
    return fold(found)[1]


def _at(summaries: list[Any], name: str) -> float | None:
    values = [reduce(getattr, name.split("."), summary) for summary in summaries]
    return None if None in values else fmean(values)


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"


if __name__ == "__main__":
    main()
