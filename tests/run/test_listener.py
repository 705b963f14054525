"""Which process serves a URL, among real ones."""

import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from bench_client.run.listener import is_here, listener
from bench_client.wire.endpoint import Endpoint, parse_endpoint
from tests.conftest import StartSim, free_port

LISTENS = "import socket; s = socket.create_server(('127.0.0.1', {port})); print(); input()"


def test_the_server_behind_a_port(start_sim: StartSim) -> None:
    endpoint = parse_endpoint(start_sim("--fixed", "5:1"))
    found = listener(endpoint)
    assert found
    assert "bench_client.sim" in psutil.Process(found).cmdline()


def test_nobody_listens() -> None:
    assert listener(Endpoint("127.0.0.1", free_port())) is None


def test_who_only_holds_a_containers_port_is_not_its_server(tmp_path: Path) -> None:
    named = tmp_path / "docker-proxy"
    named.symlink_to(sys.executable)
    port = free_port()
    with subprocess.Popen(
        [named, "-S", "-c", LISTENS.format(port=port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout
        assert process.stdout.readline()
        assert psutil.Process(process.pid).name() == "docker-proxy"
        assert listener(Endpoint("127.0.0.1", port)) is None
        process.kill()


def test_this_machine_by_any_of_its_addresses() -> None:
    own = [
        each.address
        for card in psutil.net_if_addrs().values()
        for each in card
        if each.family == socket.AF_INET
    ]
    assert own
    assert all(is_here(Endpoint(address, 80)) for address in [*own, "localhost"])


@pytest.mark.parametrize("host", ["192.0.2.1", "nowhere.invalid"])
def test_another_machine(host: str) -> None:
    assert not is_here(Endpoint(host, 80))
