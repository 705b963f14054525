"""What a server can do wrong, by the real wire: the right outcome, bounded, and no harm to others.

Every kind of fault that the embedded engine knows is here, each between two good requests.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench_client.records import Api, Load, RequestRecord
from bench_client.run.store import StoreError
from bench_client.sim.faults import KINDS, MESSAGE
from bench_client.wire import paced
from bench_client.wire.paced import Pacing
from tests.run.sending import Ask, Setting, send, send_to
from tests.sim.running import Running, sim

STALL_S = 0.5
STRUCK = 3  # tokens before a fault that comes after some
FAILING = [
    ("refuse", "reset", "the server closed the connection without an answer", 0),
    ("reset_before", "reset", "the server broke the connection: ", 0),
    ("reset_after:3", "reset", "the server broke the connection: ", STRUCK),
    ("truncated_chunk:3", "truncated", "the connection closed inside the response", STRUCK),
    ("truncated_stream:3", "truncated", "the connection closed inside the response", STRUCK),
    ("no_end:3", "no_finish", "the stream ended without a finish reason", STRUCK),
    ("error_before", "error_event", MESSAGE, 0),
    ("error_after:3", "error_event", MESSAGE, STRUCK),
    ("error_string:3", "error_event", MESSAGE, STRUCK),
    ("abort:3", "abort", "abort", STRUCK),
    ("not_a_stream", "not_a_stream", "application/json", 0),
    ("html_200", "not_a_stream", "text/html, not an event stream: Welcome This came from", 0),
    ("never_answers", "stall", f"no answer for {STALL_S:g} s (--stall-timeout)", 0),
    ("stall:3", "stall", f"no more tokens for {STALL_S:g} s (--stall-timeout)", STRUCK),
    *((f"http:{code}", f"http_{code}", MESSAGE, 0) for code in (400, 401, 404, 422)),
    *((f"http:{code}", f"http_{code}", MESSAGE, 0) for code in (429, 500, 503)),
    *((f"http:{code}:html", f"http_{code}", f"{code} This came from", 0) for code in (400, 401)),
    *((f"http:{code}:html", f"http_{code}", f"{code} This came from", 0) for code in (404, 422)),
    *((f"http:{code}:html", f"http_{code}", f"{code} This came", 0) for code in (429, 500, 503)),
]
RIGHT = (
    *("big_event", "many_events", "close_idle", "http10", "content_length", "chunk_extensions"),
    *("trailers", "one_byte", "slow_headers", "no_done", "crlf", "comments", "nospace"),
)
GOOD = Ask(tokens=8)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with sim(tmp_path_factory.mktemp("engine"), "--fixed", "5:2") as running:
        yield running


@pytest.fixture(scope="module")
def url(engine: Running) -> str:
    return f"http://127.0.0.1:{engine.port}"


@pytest.fixture(scope="module")
def reference(url: str) -> RequestRecord:
    (record,) = send(url, [GOOD])
    assert record.outcome == "ok"
    assert record.output_text
    return record


def _intact(record: RequestRecord, reference: RequestRecord) -> None:
    """A good request's record, whatever its neighbours met."""
    assert record.failure is None
    assert record.outcome == "ok"
    assert record.finish_reason == "length"
    assert record.output_tokens == GOOD.tokens
    assert record.token_count_source == "token_ids"
    assert record.events.tokens == (1,) * GOOD.tokens
    assert record.output_text == reference.output_text
    assert record.input_tokens == reference.input_tokens
    instants = (record.sent_ns, record.first_token_ns, record.last_token_ns, record.done_ns)
    known = [instant for instant in instants if instant is not None]
    assert known == sorted(known)
    assert len(known) == 4


@pytest.mark.parametrize(("fault", "kind", "message", "tokens"), FAILING)
def test_a_fault_fails_its_own_request_only(
    url: str, reference: RequestRecord, fault: str, kind: str, message: str, tokens: int
) -> None:
    stall_s = STALL_S if kind == "stall" else 10.0
    before, struck, after = send(url, [GOOD, Ask(fault), GOOD], stall_s=stall_s)
    _intact(before, reference)
    _intact(after, reference)
    assert struck.outcome == "failed"
    assert struck.failure is not None
    assert struck.failure.kind == kind
    assert message in struck.failure.message
    assert "\n" not in struck.failure.message
    # What came before the fault is kept.
    assert struck.events.tokens == (1,) * tokens
    assert (struck.first_token_ns is None) == (tokens == 0)
    assert struck.done_ns is not None
    assert not struck.rate_limited


def test_an_answer_without_end_is_cut_off(url: str, reference: RequestRecord) -> None:
    before, endless, after = send(url, [GOOD, Ask("endless", max_events=200), GOOD])
    _intact(before, reference)
    _intact(after, reference)
    assert endless.failure is not None
    assert endless.failure.kind == "too_long"
    assert "heed max_tokens" in endless.failure.message
    assert 200 < len(endless.events.tokens) < 2000


@pytest.mark.parametrize("api", ["completions", "generate"])
def test_the_other_apis_fail_alike(url: str, api: Api) -> None:
    kinds = {
        "error_before": "error_event",
        "error_after:3": "error_event",
        "error_string:3": "error_event",
        "abort:3": "abort",
        "no_end:3": "no_finish",
        "truncated_stream:3": "truncated",
        "http:422": "http_422",
    }
    asks = [GOOD, *map(Ask, kinds), GOOD]
    first, *struck, last = send(url, asks, api=api)
    assert [record.failure and record.failure.kind for record in struck] == [*kinds.values()]
    assert (first.outcome, last.outcome) == ("ok", "ok")
    assert first.output_text == last.output_text


@pytest.mark.parametrize("shape", RIGHT)
def test_an_odd_shape_is_no_fault(url: str, reference: RequestRecord, shape: str) -> None:
    before, odd, after = send(url, [GOOD, Ask(shape), GOOD])
    _intact(before, reference)
    _intact(after, reference)
    assert odd.failure is None
    assert odd.finish_reason == "length"
    if shape == "many_events":
        assert odd.output_tokens == 20_000
        assert odd.events.tokens == (1,) * 20_000
        return
    assert odd.output_tokens == GOOD.tokens
    assert odd.events.tokens == (1,) * GOOD.tokens
    assert odd.output_text is not None
    assert reference.output_text is not None
    text = odd.output_text
    if shape == "big_event":
        assert text.count("x") >= 2_000_000
        text = text.replace("x" * 2_000_000, "", 1)
    assert text == reference.output_text


def test_a_connection_that_the_server_closed_while_idle_is_reopened(
    engine: Running, url: str, reference: RequestRecord
) -> None:
    # The engine closes 50 ms after its answer.
    load = Load(kind="open", request_rate=5.0, max_concurrency=1)
    asks = [Ask("close_idle", due_ms=0), Ask(due_ms=200), Ask(due_ms=250)]
    closing, reopened, kept = send(url, asks, load=load)
    for record in (closing, reopened, kept):
        _intact(record, reference)
    assert [record.reopened for record in (closing, reopened, kept)] == [False, True, False]
    # Connecting is no part of the latency, and nothing was sent twice.
    sent = [entry["id"] for entry in engine.send_log()]
    assert sent.count(reopened.id) == 1


@pytest.mark.parametrize("fault", ["reset_after:0", "reset_after:3", "truncated_stream:0"])
def test_what_began_to_be_answered_is_never_sent_again(
    engine: Running, url: str, fault: str
) -> None:
    _, struck, _ = send(url, [GOOD, Ask(fault), GOOD])
    assert struck.outcome == "failed"
    assert not struck.reopened
    assert [entry["id"] for entry in engine.send_log()].count(struck.id) == 1


def test_a_request_in_flight_beside_faulty_ones_is_unaffected(url: str) -> None:
    stalls = ("never_answers", "stall:3")
    faults = [Ask(fault) for fault, *_ in FAILING if fault not in stalls]
    faults += [Ask(shape) for shape in RIGHT]
    long = Ask(tokens=600)
    alone, *_ = send(url, [long])
    beside, *others = send(url, [long, *faults], load=Load(kind="closed", concurrency=2))
    assert beside.failure is None
    assert beside.events.tokens == (1,) * long.tokens
    assert beside.output_text == alone.output_text
    assert beside.done_ns is not None
    overlapping = [other for other in others if other.sent_ns and other.sent_ns < beside.done_ns]
    assert len(overlapping) > len(faults) / 2
    assert sum(other.outcome == "failed" for other in others) == len(FAILING) - len(stalls)


def test_a_429_is_waited_for_where_asked(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paced, "LONGEST_WAIT_S", 0.02)  # the engine asks for 1 s, every time
    before, struck, after = send(url, [GOOD, Ask("http:429"), GOOD], pacing=Pacing(retry_429=True))
    assert struck.failure is not None
    assert struck.failure.kind == "http_429"
    assert struck.rate_limited == paced.ATTEMPTS - 1
    assert [before.rate_limited, after.rate_limited] == [0, 0]
    assert [before.outcome, after.outcome] == ["ok", "ok"]


@pytest.mark.parametrize(
    "load",
    [
        Load(kind="closed", concurrency=1),
        Load(kind="closed", concurrency=2),
        Load(kind="open", request_rate=10.0),
    ],
)
def test_what_cannot_be_kept_is_not_measured_on(url: str, load: Load) -> None:
    seen: list[RequestRecord] = []

    def full(record: RequestRecord) -> None:
        seen.append(record)
        raise StoreError("no space left")

    asks = [Ask(due_ms=100 * index) for index in range(80)]
    began = time.monotonic()
    with pytest.raises(StoreError, match="no space left"):
        send_to(full, url, asks, Setting(load=load))
    assert len(seen) <= 4
    assert time.monotonic() - began < 4


def test_every_kind_is_tested() -> None:
    elsewhere = Path(__file__).parents[1] / "cli" / "test_losses.py"
    tested = {fault.partition(":")[0] for fault, *_ in FAILING} | set(RIGHT)
    assert set(KINDS) - tested == {"die", "endless"}
    assert "die:" in elsewhere.read_text()
