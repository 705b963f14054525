"""The client against the embedded engine at a given load: how far off are its own figures?"""

import math
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import httpx
import msgspec
from msgspec import Struct

from bench_client.measure.error import Pace, Sent, client_error
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
# The engine's first token takes as long as any other, so that many short answers are the same load
# as a long one; within what it can do.
TTFT_MS = (1.0, 50.0)
GAP_MS = (0.02, 200.0)
ANSWERS = 100  # TTFTs of a p99
_MODEL = "calibration"


class CalibrationLoad(Struct, frozen=True, kw_only=True):
    """What to imitate: streams at once and the mean gap between one stream's events (ms).

    The gap is null where no answer had two events. What is beyond the engine is cut to `GAP_MS`.
    """

    streams: int
    gap_ms: float | None
    workers: int = 1
    seconds: float = SECONDS

    @property
    def pace(self) -> Pace:
        """What the engine is told to do."""
        gap_ms = _within(20.0 if self.gap_ms is None else self.gap_ms, GAP_MS)
        rate = self.streams * 1e3 / self.gap_ms if self.gap_ms else None
        return Pace(ttft_ms=_within(gap_ms, TTFT_MS), gap_ms=gap_ms, events_per_s=rate)


def _within(value: float, bounds: tuple[float, float]) -> float:
    return min(max(value, bounds[0]), bounds[1])


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
        with ServerProcess.start(_engine(url, load.pace), log, grace_s=1.0) as process:
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
    return client_error(records, {sent.id: sent for sent in lines}, load.pace, window.client.cpu_s)


def observed_load(records: Sequence[RequestRecord], streams: int, workers: int) -> CalibrationLoad:
    """The load that a run really was: its streams, and the mean gap between a stream's events."""
    spans = [
        ((record.last_token_ns or 0) - (record.first_token_ns or 0), len(record.events.at_ns) - 1)
        for record in records
        if record.outcome == "ok" and len(record.events.at_ns) > 1
    ]
    gaps = sum(count for _, count in spans)
    mean_ms = sum(span for span, _ in spans) / gaps / 1e6 if gaps else None
    return CalibrationLoad(streams=streams, gap_ms=mean_ms, workers=min(workers, streams))


def _plan(load: CalibrationLoad) -> Plan:
    messages = (Message("user", "calibration"),)
    rounds, tokens = _answers(load)
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
        for index in range(load.streams * rounds)
    )
    # As before a run: a library's first request takes longer.
    warmup = tuple(
        msgspec.structs.replace(request, id=f"w{request.id}", max_tokens=2)
        for request in requests[: load.streams]
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


def _answers(load: CalibrationLoad) -> tuple[int, int]:
    """How many answers of a stream, one after another, of how many tokens each.

    Enough for a p99 of TTFT where the time allows; of two tokens at least, to have a gap.
    """
    pace, whole_ms = load.pace, load.seconds * 1e3
    rounds = math.ceil(ANSWERS / load.streams)
    tokens = max(int((whole_ms / rounds - pace.ttft_ms) / pace.gap_ms) + 1, 2)
    answer_ms = pace.ttft_ms + pace.gap_ms * (tokens - 1)
    return min(rounds, max(int(whole_ms / answer_ms), 1)), tokens


def _engine(url: str, pace: Pace) -> LaunchCommand:
    port = url.rpartition(":")[2]
    fixed = f"{pace.ttft_ms:.4f}:{pace.gap_ms:.4f}"
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
