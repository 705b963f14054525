"""Small whole records, to be varied by the tests."""

from typing import Any

import msgspec

from bench_client.records import (
    FORMAT,
    Client,
    Events,
    Load,
    Plan,
    PlannedRequest,
    RequestRecord,
    RunHeader,
    Sampling,
    Server,
)


def planned(**changes: Any) -> PlannedRequest:
    request = PlannedRequest(
        id="p000-r0",
        prompt_index=0,
        prompt_id="p0",
        prompt_sha256="0" * 64,
        repeat=0,
        max_tokens=4,
        seed=1,
        language="en",
    )
    return msgspec.structs.replace(request, **changes)


def plan(**changes: Any) -> Plan:
    made = Plan(
        scenario="s",
        seed=0,
        repeats=1,
        load=Load(kind="closed", concurrency=1),
        sampling=Sampling(),
        requests=(planned(),),
    )
    return msgspec.structs.replace(made, **changes)


def header(**changes: Any) -> RunHeader:
    made = RunHeader(
        format=FORMAT,
        bench_client_version="0",
        started_at="2026-01-01T00:00:00+00:00",
        began_unix_ns=0,
        argv=(),
        plan=plan(),
        server=Server(name="a", url="http://127.0.0.1:1"),
        environment={},
        client=Client(python="3.11", transport="wire"),
    )
    return msgspec.structs.replace(made, **changes)


def record(**changes: Any) -> RequestRecord:
    made = RequestRecord(
        id="p000-r0",
        prompt_index=0,
        prompt_sha256="0" * 64,
        repeat=0,
        scheduled_ns=0,
        sent_ns=0,
        first_token_ns=50_000_000,
        last_token_ns=110_000_000,
        done_ns=111_000_000,
        outcome="ok",
        failure=None,
        finish_reason="length",
        input_tokens=10,
        output_tokens=4,
        token_count_source="token_ids",
        stamps="kernel",
        events=Events((50_000_000, 70_000_000, 90_000_000, 110_000_000), (1, 1, 1, 1)),
        reads=4,
        accept=None,
        output_sha256="1" * 64,
    )
    return msgspec.structs.replace(made, **changes)
