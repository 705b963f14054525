"""The client's own error, and of which load it is said to be."""

from typing import Any

import pytest
from msgspec.structs import replace

from bench_client.records import WorkerClock
from bench_client.report.client_error import client_error

from . import building, samples


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "at this load: TTFT +0.10 ms, gap p99 ±0.05 ms"),
        ({"planned_events_per_s": 220.0}, "at 44 events/s, 20% of this load: TTFT"),
        ({"planned_events_per_s": 22.0}, "at 44 events/s, 2.0x this load: TTFT"),
        ({"planned_events_per_s": None}, "at 44 events/s: TTFT"),
        (
            {"gap_error_p99_ms": None, "gap_error_max_ms": 0.16},
            "at this load: TTFT +0.10 ms, gap max ±0.16 ms",
        ),
    ],
)
def test_the_clients_error_names_its_load(changes: dict[str, Any], said: str) -> None:
    run, _ = samples.sglang()
    assert client_error(replace(building.CALIBRATION, **changes), run.header).startswith(said)


def test_the_clients_error_is_not_of_tls_or_other_machines() -> None:
    run, _ = samples.sglang()
    secure = replace(run.header, server=replace(run.header.server, url="https://host:1"))
    assert "; over plain http" in client_error(building.CALIBRATION, secure)
    clock = WorkerClock(worker="w0", host="node-2", offset_ns=0, uncertainty_ns=1)
    spread = replace(run.header, client=replace(run.header.client, worker_clocks=(clock,)))
    said = client_error(building.CALIBRATION, spread)
    assert said.endswith("on the machine that conducted the run, not on its workers'")
    assert ";" not in client_error(building.CALIBRATION, run.header)
