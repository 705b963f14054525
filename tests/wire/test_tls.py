"""TLS by real certificates in front of the embedded engine, and stamps that stay the kernel's."""

import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from bench_client.run.transports import Kind
from tests.cli.helpers import bench_client, folder, one_line, prompts, records
from tests.sim.running import Running, sim
from tests.wire.exchanging import KINDS, Answer, ask, exchange, spec
from tests.wire.relay import relay

STAMP_ERROR_MS = 5.0
BUSY_S = 0.045  # of every 47 ms
PIECE = 200  # bytes; an event has more


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with sim(tmp_path_factory.mktemp("engine"), "--fixed", "60:60") as running:
        yield running


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private CA (ca.pem), a server's chain for this machine, and one for another name."""
    path = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(path / "ca.pem")
    issued = {"here.pem": ("localhost", "127.0.0.1", "::1"), "elsewhere.pem": ("other.example",)}
    for name, hosts in issued.items():
        authority.issue_cert(*hosts).private_key_and_cert_chain_pem.write_to_path(path / name)
    return path


@pytest.fixture(scope="module")
def secure(engine: Running, certificates: Path) -> Iterator[int]:
    """The port where the engine speaks TLS."""
    with relay(engine.port, "--cert", certificates / "here.pem") as port:
        yield port


@pytest.fixture(scope="module")
def split(secure: int) -> Iterator[int]:
    """The same, its bytes in small segments."""
    with relay(secure, "--pieces", str(PIECE)) as port:
        yield port


def late_ms(answer: Answer, id_: str, engine: Running) -> list[float]:
    """How much later than it was sent each event was stamped."""
    (sent,) = [line for line in engine.send_log() if line["id"] == id_]
    pairs = zip(answer.result.events.at_ns, sent["events"], strict=True)
    return [(mine - at_ns) / 1e6 for mine, (at_ns, _) in pairs]


@pytest.mark.parametrize("kind", KINDS)
def test_a_private_ca(secure: int, certificates: Path, kind: Kind) -> None:
    ca = str(certificates / "ca.pem")
    for host in ("localhost", "127.0.0.1"):
        answer = exchange(spec(f"https://{host}:{secure}", kind, ca=ca), ask(tokens=3))
        assert answer.kind is None
        assert answer.result.output_tokens == 3
        assert answer.raw.stamps == ("kernel" if kind == "wire" else "user")


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_ca_is_refused_unless_insecure(secure: int, kind: Kind) -> None:
    url = f"https://localhost:{secure}"
    with pytest.raises(OSError, match="certificate"):
        exchange(spec(url, kind), ask())
    assert exchange(spec(url, kind, insecure=True), ask(tokens=3)).kind is None


@pytest.mark.parametrize("front", ["plain", "secure", "split"])
def test_stamps_stay_the_kernels(
    engine: Running, certificates: Path, request: pytest.FixtureRequest, front: str
) -> None:
    """A client that hardly ever looks still knows when each event came."""
    ca, url = None, f"http://localhost:{engine.port}"
    if front != "plain":
        ca, url = certificates / "ca.pem", f"https://localhost:{request.getfixturevalue(front)}"
    through = spec(url, "wire", ca=str(ca) if ca else None)
    id_ = f"stamps-{front}"
    answer = exchange(through, ask(id_, tokens=25), blocked_s=BUSY_S)
    assert answer.kind is None
    assert answer.raw.stamps == "kernel"
    assert min(len(data) for _, data in answer.raw.reads[:25]) > PIECE
    errors = late_ms(answer, id_, engine)
    assert min(errors) > 0
    assert statistics.median(errors) < STAMP_ERROR_MS


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("reset_after:3", "reset"),
        ("truncated_stream:3", "truncated"),
        ("stall:3", "stall"),
        ("http10", None),  # ends where TLS does
        ("one_byte", None),
        ("big_event", None),
    ],
)
@pytest.mark.parametrize("front", ["secure", "split"])
def test_what_goes_wrong_behind_tls(
    request: pytest.FixtureRequest, front: str, fault: str, kind: str | None
) -> None:
    if front == "split" and fault == "big_event":
        pytest.skip("10,000 segments take too long")
    url = f"https://127.0.0.1:{request.getfixturevalue(front)}"
    through = spec(url, "wire", insecure=True, stall_s=0.5 if kind == "stall" else 10.0)
    answer = exchange(through, ask(tokens=5, sim_fault=fault))
    assert answer.kind == kind, answer.message
    assert sum(filter(None, answer.result.events.tokens)) == (3 if kind else 5)


def run_against(url: str, tmp_path: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return bench_client(
        *("--url", url, "--scenario", prompts(tmp_path / "p.jsonl"), "--max-tokens", 4),
        *("--results", tmp_path / "r", "--no-calibrate", "--warmup", 0, *arguments),
    )


def test_a_run_over_https(secure: int, certificates: Path, tmp_path: Path) -> None:
    ca = certificates / "ca.pem"
    done = run_against(f"https://localhost:{secure}/v1", tmp_path, "--ca", ca)
    assert done.returncode == 0, done.stderr
    kept = records(folder(tmp_path / "r"))
    assert [(each["outcome"], each["stamps"]) for each in kept] == [("ok", "kernel")] * 2


@pytest.mark.parametrize("kind", ["wire", "httpx"])
def test_another_hosts_certificate(
    engine: Running, certificates: Path, tmp_path: Path, kind: Kind
) -> None:
    ca = certificates / "ca.pem"
    with relay(engine.port, "--cert", certificates / "elsewhere.pem") as port:
        url = f"https://localhost:{port}"
        done = run_against(url, tmp_path, "--ca", ca, "--transport", kind)
        with pytest.raises(OSError, match="Hostname mismatch"):
            exchange(spec(url, kind, ca=str(ca)), ask())
    assert done.returncode == 1
    assert "Hostname mismatch" in one_line(done)
    assert "'localhost'" in one_line(done)
    assert "use the name that it is made for" in one_line(done)


def test_an_unknown_ca_in_one_line(secure: int, tmp_path: Path) -> None:
    done = run_against(f"https://localhost:{secure}", tmp_path)
    assert done.returncode == 1
    assert f"https://localhost:{secure}" in one_line(done)
    assert "--ca" in one_line(done)
    assert "--insecure" in one_line(done)


def test_https_to_a_server_without_it(engine: Running, tmp_path: Path) -> None:
    done = run_against(f"https://localhost:{engine.port}", tmp_path, "--insecure")
    assert done.returncode == 1
    assert "does the server speak https" in one_line(done)


@pytest.mark.parametrize(("name", "said"), [("none.pem", "does not exist"), ("p.jsonl", "PEM")])
def test_a_ca_file_that_is_none(tmp_path: Path, name: str, said: str) -> None:
    done = run_against("https://localhost:1", tmp_path, "--ca", tmp_path / name)
    assert done.returncode == 2
    last = done.stderr.strip().split("\n")[-1]
    assert said in last
    assert "--ca" in last
    assert str(tmp_path / name) in last
