"""Workers on a real Ray cluster: two nodes on this machine. Run by `make test-ray`."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import msgspec
import psutil
import pytest
import uvloop

from bench_client.records import Load, Message, Plan, RequestRecord, Sampling
from bench_client.run import ray_workers
from bench_client.run.conduct import measure_plan
from bench_client.run.shards import shards
from bench_client.run.transports import TransportSpec
from bench_client.run.window import Hooks, Window
from bench_client.run.worker import Task
from bench_client.run.workers import WorkerError, conduct
from bench_client.wire.endpoint import EndpointError
from tests.cli.helpers import bench_client, folder, load, one_line, prompts, records
from tests.conftest import free_port
from tests.factories import plan, planned
from tests.sim.running import Running, sim

pytest.importorskip("ray")
pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore"),  # Ray's own, by the dozen
]

MS = 1_000_000
TARGET = ("sim", "vllm")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with sim(tmp_path_factory.mktemp("engine"), "--fixed", "20:5") as running:
        yield running


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The client address of a cluster of two nodes with one CPU each."""
    import ray
    from ray.cluster_utils import Cluster

    port = free_port()
    head = {"num_cpus": 1, "include_dashboard": False, "ray_client_server_port": port}
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAY_AUTH_MODE", "disabled")  # whatever this user's token
        environment.setenv("RAY_USAGE_STATS_ENABLED", "0")
        running = Cluster(initialize_head=True, head_node_args=head)
        running.add_node(num_cpus=1)
        address = f"127.0.0.1:{port}"
        for _ in range(3):  # on a loaded machine Ray gives its client server up too early
            with suppress(EndpointError):
                ray_workers.join(address)
                break
        yield address
        ray.shutdown()
        running.shutdown()


@pytest.fixture
def spec(engine: Running) -> TransportSpec:
    engine.call("/send_log", method="DELETE")
    return TransportSpec(url=f"http://127.0.0.1:{engine.port}")


def work(count: int, tokens: int = 20) -> Plan:
    """A closed loop of two slots; even requests go to w0, odd ones to w1."""
    asked = (Message("user", "What does a cluster do?"),)
    requests = [planned(id=f"r{n}", max_tokens=tokens, messages=asked) for n in range(count)]
    return plan(
        requests=tuple(requests),
        load=Load(kind="closed", concurrency=2),
        sampling=Sampling(temperature=0.0, ignore_eos=True),
    )


def measured(
    whole: Plan,
    spec: TransportSpec,
    cluster: str,
    on_record: Callable[[RequestRecord], None] = lambda _: None,
) -> tuple[Window, dict[str, RequestRecord]]:
    kept: dict[str, RequestRecord] = {}

    def keep(record: RequestRecord) -> None:
        assert record.id not in kept
        kept[record.id] = record
        on_record(record)

    window = measure_plan(whole, spec, TARGET, Hooks(on_record=keep), workers=2, ray=cluster)
    return window, kept


def received_ns(engine: Running) -> dict[str, int]:
    return {sent["id"]: sent["received_ns"] for sent in engine.send_log()}


def worker_processes() -> list[psutil.Process]:
    """Those that measure, on whichever node."""
    found = []
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if "bench_client.run.worker" in each.cmdline():
                found.append(each)
    return found


def test_a_plan_is_measured_by_both_nodes(
    cluster: str, spec: TransportSpec, engine: Running
) -> None:
    raylets = set()

    def look(_: RequestRecord) -> None:
        raylets.update(worker.parent().parent().pid for worker in worker_processes())

    window, kept = measured(work(12), spec, cluster, look)
    assert len(raylets) == 2
    assert set(kept) == {f"r{n}" for n in range(12)}
    for n in range(12):
        record = kept[f"r{n}"]
        assert record.failure is None
        assert (record.worker, record.stamps) == (f"w{n % 2}", "kernel")
        assert record.output_tokens == 20
    assert window.client.workers == 2
    assert not window.interrupted
    arrived = received_ns(engine)
    for first in ("r0", "r1"):  # together, and when the clock starts
        assert -5 * MS < arrived[first] - window.began_unix_ns < 50 * MS
        sent_ns = kept[first].sent_ns
        assert sent_ns is not None
        assert abs(window.began_unix_ns + sent_ns - arrived[first]) < 10 * MS


def test_the_bound_of_a_clock_offset_holds(cluster: str, spec: TransportSpec) -> None:
    """Both nodes have this machine's clock: the truth is no offset."""
    window, _ = measured(work(2), spec, cluster)
    assert [clock.worker for clock in window.client.worker_clocks] == ["w0", "w1"]
    for clock in window.client.worker_clocks:
        assert abs(clock.offset_ns) <= clock.uncertainty_ns < 25 * MS
        assert clock.host


def test_a_worker_starts_by_its_own_clock(
    cluster: str, spec: TransportSpec, engine: Running
) -> None:
    """A clock that is taken to be 400 ms ahead reaches the common start 400 ms later."""
    ahead_ns = 400 * MS
    kept: list[RequestRecord] = []

    async def run() -> Window:
        tasks = [
            Task(worker=f"w{n}", plan=share, transport=spec, model="sim", dialect="vllm")
            for n, share in enumerate(shards(work(2), 2))
        ]
        workers = await ray_workers.launch(tasks, cluster)
        workers[1].clock = msgspec.structs.replace(workers[1].clock, offset_ns=ahead_ns)
        return await conduct(workers, Hooks(on_record=kept.append))

    uvloop.run(run())
    arrived = received_ns(engine)
    assert abs(arrived["r1"] - arrived["r0"] - ahead_ns) < 50 * MS
    # By its own clock each was sent at the start.
    assert all(record.sent_ns is not None and record.sent_ns < 50 * MS for record in kept)


def test_a_lost_worker_fails_its_share_only(cluster: str, spec: TransportSpec) -> None:
    hit: list[psutil.Process] = []

    def lose(_: RequestRecord) -> None:
        if not hit:
            hit.append(worker_processes()[0])
            hit[0].parent().kill()

    window, kept = measured(work(40, tokens=40), spec, cluster, lose)
    assert len(kept) == 40
    assert not window.interrupted
    failed = [record for record in kept.values() if record.failure]
    assert 0 < len(failed) <= 20
    assert {record.failure.kind for record in failed if record.failure} == {"worker_lost"}
    assert len({record.worker for record in failed}) == 1
    assert _gone(hit[0])  # it sends no more


def _gone(process: psutil.Process) -> bool:
    try:
        process.wait(5)
    except psutil.TimeoutExpired:
        return False
    return True


def test_an_interruption_keeps_what_was_measured(cluster: str, spec: TransportSpec) -> None:
    told: list[RequestRecord] = []

    def interrupt(record: RequestRecord) -> None:
        if not told:
            os.kill(os.getpid(), signal.SIGINT)
        told.append(record)

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    began = time.monotonic()
    try:
        window, kept = measured(work(200, tokens=40), spec, cluster, interrupt)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert window.interrupted
    assert 0 < len(kept) < 200
    assert time.monotonic() - began < 20
    kinds = {record.failure.kind for record in kept.values() if record.failure}
    assert kinds <= {"interrupted"}


def test_a_server_that_the_nodes_cannot_reach(cluster: str) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(WorkerError, match=rf"^worker w\d: cannot connect to {url}: .*$"):
        measured(work(2), TransportSpec(url=url), cluster)


def test_a_file_that_a_node_lacks(cluster: str) -> None:
    with pytest.raises(WorkerError, match=r"^worker w\d: --ca /none.pem: No such file"):
        measured(work(2), TransportSpec(url="https://127.0.0.1:1", ca="/none.pem"), cluster)


def test_a_node_with_another_version(
    cluster: str, spec: TransportSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_workers, "__version__", "9.9")
    with pytest.raises(WorkerError, match=r"^node .* has bench-client .*, this machine 9\.9"):
        measured(work(2), spec, cluster)


def test_nodes_without_the_package(
    cluster: str, spec: TransportSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What only this process can import, the nodes cannot."""
    (tmp_path / "only_here.py").write_text("class Seat:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(ray_workers, "Seat", import_module("only_here").Seat)
    with pytest.raises(WorkerError, match=r"No module named 'only_here'; has each bench-client"):
        measured(work(2), spec, cluster)


@pytest.mark.parametrize(
    ("address", "count"), [("{client}", 2), ("{client}?workers=3", 3), ("auto", 2)]
)
def test_a_run_on_a_cluster(
    cluster: str, engine: Running, tmp_path: Path, address: str, count: int
) -> None:
    workers = "ray://" + address.format(client=cluster)
    done = bench_client(
        *("--url", f"http://127.0.0.1:{engine.port}", "--workers", workers),
        *("--scenario", prompts(tmp_path / "p.jsonl", 9), "--concurrency", 3, "--max-tokens", 6),
        *("--results", tmp_path / "r", "--no-calibrate", "--ignore-eos"),
    )
    assert done.returncode == 0, done.stderr
    path = folder(tmp_path / "r")
    client = load(path / "run.json")["client"]
    assert client["workers"] == len(client["worker_clocks"]) == count
    kept = records(path)
    assert [each["outcome"] for each in kept] == ["ok"] * 9
    assert {each["worker"] for each in kept} == {f"w{n}" for n in range(count)}


def test_more_nodes_than_slots(cluster: str, tmp_path: Path) -> None:
    done = bench_client(
        *("--url", "http://127.0.0.1:1", "--workers", f"ray://{cluster}"),
        *("--scenario", prompts(tmp_path / "p.jsonl"), "--results", tmp_path / "r"),
    )
    assert done.returncode == 2
    assert "--concurrency 2" in one_line(done)


def test_no_cluster_there(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    done = bench_client(
        "--server", "sim", "--workers", f"ray://{address}", "--results", tmp_path / "r"
    )
    assert done.returncode == 2
    assert f"no Ray cluster at ray://{address}: " in one_line(done)
    assert "10001" in one_line(done)
