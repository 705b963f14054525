"""The client against the embedded engine at a given load: how far off are its own figures?"""

import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import httpx
import msgspec
from msgspec import Struct

from bench_client.measure.error import Sent, client_error
from bench_client.plan.build import prompt_sha256
from bench_client.records import (
    Calibration,
    Load,
    Message,
    Plan,
    PlannedRequest,
    RequestRecord,
    Sampling,
)
from bench_client.run.conduct import measure_plan
from bench_client.run.transports import Kind, TransportSpec
from bench_client.run.window import Hooks
from server_launchers.process import ServerProcess
from server_launchers.settings import LaunchCommand

# Long enough for a p99 of gaps, short enough to run beside every measurement.
SECONDS = 2.0
TTFT_MS = 50.0
_MODEL = "calibration"


class CalibrationLoad(Struct, frozen=True, kw_only=True):
    """What to imitate: streams at once and the mean gap between one stream's events (ms)."""

    streams: int
    gap_ms: float
    workers: int = 1
    seconds: float = SECONDS


def calibrate(load: CalibrationLoad, kind: Kind = "wire") -> Calibration | None:
    """Run the load against the embedded engine and compare with its send log.

    Null where not one stream could be compared.

    Raises:
        LaunchError: the engine cannot start.
        KeyboardInterrupt: a signal ended it.
    """
    url = f"http://127.0.0.1:{_free_port()}"
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "sim.log"
        with ServerProcess.start(_engine(url, load.gap_ms), log, grace_s=1.0) as process:
            process.wait_ready(timeout_s=30.0)
            records: list[RequestRecord] = []
            window = measure_plan(
                _plan(load),
                TransportSpec(url=url, kind=kind),
                (_MODEL, "vllm"),
                Hooks(on_record=records.append),
                workers=load.workers,
            )
            if window.interrupted:
                raise KeyboardInterrupt
            answer = httpx.get(f"{url}/send_log", trust_env=False, timeout=60.0)
    lines = [msgspec.json.decode(line, type=Sent) for line in answer.content.split(b"\n") if line]
    return client_error(records, {sent.id: sent for sent in lines}, window.client.cpu_s)


def observed_load(records: Sequence[RequestRecord], streams: int, workers: int) -> CalibrationLoad:
    """The load that a run really was: its streams, and the mean gap between a stream's events."""
    spans = [
        ((record.last_token_ns or 0) - (record.first_token_ns or 0), len(record.events.at_ns) - 1)
        for record in records
        if record.outcome == "ok" and len(record.events.at_ns) > 1
    ]
    gaps = sum(count for _, count in spans)
    mean_ms = sum(span for span, _ in spans) / gaps / 1e6 if gaps else 20.0
    return CalibrationLoad(
        streams=streams, gap_ms=min(max(mean_ms, 1.0), 200.0), workers=min(workers, streams)
    )


def _plan(load: CalibrationLoad) -> Plan:
    messages = (Message("user", "calibration"),)
    tokens = max(int((load.seconds * 1e3 - TTFT_MS) / load.gap_ms), 2)
    requests = tuple(
        PlannedRequest(
            id=f"c{index:05d}",
            prompt_index=index,
            prompt_id=f"c{index}",
            prompt_sha256=prompt_sha256(messages),
            repeat=0,
            max_tokens=tokens,
            seed=index,
            messages=messages,
        )
        for index in range(load.streams)
    )
    # As before a run: a library's first request takes longer.
    warmup = tuple(
        msgspec.structs.replace(request, id=f"w{request.id}", max_tokens=2) for request in requests
    )
    return Plan(
        scenario=_MODEL,
        seed=0,
        repeats=1,
        load=Load(kind="closed", concurrency=load.streams),
        sampling=Sampling(temperature=0.0, ignore_eos=True),
        requests=requests,
        warmup=warmup,
    )


def _engine(url: str, gap_ms: float) -> LaunchCommand:
    port = url.rpartition(":")[2]
    fixed = f"{TTFT_MS:g}:{gap_ms:.4f}"
    argv = (sys.executable, "-m", "bench_client.sim", "--port", port, "--model", _MODEL)
    return LaunchCommand(
        name=_MODEL,
        engine="sim",
        argv=(*argv, "--fixed", fixed),
        env={},
        url=url,
        model=_MODEL,
        draft_model=None,
        served_model_name=_MODEL,
    )


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
