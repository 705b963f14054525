"""Proxy variables: refused by the wire, honoured by the others, ignored for this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench_client.run.transports import Kind
from bench_client.wire.endpoint import EndpointError, parse_endpoint
from bench_client.wire.proxy import check_proxy, is_local
from tests.cli.helpers import bench_client, folder, one_line, prompts, records
from tests.conftest import free_port
from tests.sim.running import Running, sim
from tests.wire.relay import relay

VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
CLEAN = dict.fromkeys((*VARIABLES, *(name.upper() for name in VARIABLES)), "")
FAR = "model.example"  # nowhere but at the proxy


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with sim(tmp_path_factory.mktemp("engine"), "--fixed", "5:2") as running:
        yield running


def run_against(url: str, tmp_path: Path, kind: Kind, **env: str) -> tuple[int, str, list[str]]:
    """Exit code, what was said on stderr, and the outcome of each request."""
    done = bench_client(
        *("--url", url, "--scenario", prompts(tmp_path / "p.jsonl"), "--max-tokens", 4),
        *("--results", tmp_path / "r", "--no-calibrate", "--warmup", 0, "--transport", kind),
        **CLEAN | env,
    )
    kept = records(folder(tmp_path / "r")) if done.returncode in (0, 1) else []
    said = one_line(done) if done.returncode == 2 else done.stderr
    return done.returncode, said, [each["outcome"] for each in kept]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in CLEAN:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("url", "variables", "refused_by"),
    [
        (f"http://{FAR}", {"http_proxy": "http://p:1"}, "http_proxy"),
        (f"http://{FAR}", {"HTTP_PROXY": "http://p:1"}, "http_proxy"),
        (f"http://{FAR}", {"all_proxy": "http://p:1"}, "all_proxy"),
        (f"http://{FAR}", {"https_proxy": "http://p:1"}, None),
        (f"https://{FAR}", {"https_proxy": "http://p:1"}, "https_proxy"),
        (f"http://{FAR}", {"http_proxy": "http://p:1", "no_proxy": FAR}, None),
        (f"http://{FAR}", {"http_proxy": "http://p:1", "no_proxy": ".example"}, None),
        ("http://10.0.0.7", {"http_proxy": "http://p:1"}, "http_proxy"),
        (f"http://{FAR}", {}, None),
        *((f"http://{host}", {"http_proxy": "http://p:1", "all_proxy": "http://p:1"}, None)
          for host in ("localhost", "127.0.0.1", "127.0.0.2", "[::1]")),
    ],
)  # fmt: skip
def test_the_wire_refuses_a_proxy(
    environment: pytest.MonkeyPatch, url: str, variables: dict[str, str], refused_by: str | None
) -> None:
    for name, value in variables.items():
        environment.setenv(name, value)
    endpoint = parse_endpoint(url)
    if refused_by is None:
        check_proxy(endpoint)
        return
    with pytest.raises(EndpointError, match=f"^{refused_by} is set and covers .*no_proxy"):
        check_proxy(endpoint)


@pytest.mark.parametrize("host", ["localhost.example", "10.0.0.1", "[fe80::1]", FAR])
def test_elsewhere(host: str) -> None:
    assert not is_local(parse_endpoint(f"http://{host}"))


def test_a_run_by_wire_is_refused_in_one_line(tmp_path: Path) -> None:
    url = f"http://{FAR}:8000"
    code, said, _ = run_against(url, tmp_path, "wire", http_proxy="http://127.0.0.1:1")
    assert code == 2
    assert FAR in said
    assert "--transport httpx" in said


@pytest.mark.parametrize("kind", ["httpx", "openai"])
def test_control_and_requests_go_through_the_proxy(
    tmp_path: Path, engine: Running, kind: Kind
) -> None:
    log = tmp_path / "proxy.log"
    url = f"http://{FAR}:8000"
    with relay(engine.port, log=log) as port:
        proxy = f"http://127.0.0.1:{port}"
        _, said, outcomes = run_against(url, tmp_path, kind, http_proxy=proxy)
    assert outcomes == ["ok", "ok"], said
    passed = log.read_text().splitlines()
    assert f"GET {url}/v1/models HTTP/1.1" in passed
    assert f"GET {url}/metrics HTTP/1.1" in passed
    assert passed.count(f"POST {url}/v1/chat/completions HTTP/1.1") == 2


@pytest.mark.parametrize("kind", ["httpx", "openai"])
def test_this_machine_is_never_asked_through_one(
    tmp_path: Path, engine: Running, kind: Kind
) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    url = f"http://127.0.0.1:{engine.port}"
    _, said, outcomes = run_against(url, tmp_path, kind, http_proxy=dead, all_proxy=dead)
    assert outcomes == ["ok", "ok"], said


def test_a_proxy_that_httpx_cannot_use(tmp_path: Path) -> None:
    code, said, _ = run_against(
        f"http://{FAR}:8000", tmp_path, "httpx", all_proxy="socks5://127.0.0.1:1"
    )
    assert code == 2
    assert "SOCKS" in said
