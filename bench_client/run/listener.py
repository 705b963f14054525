"""Which process of this machine serves a URL, so that its load is not taken for a stranger's."""

import socket
from contextlib import suppress

import psutil

from bench_client.run.lookups import beside
from bench_client.wire.endpoint import Endpoint
from bench_client.wire.proxy import is_local

# They hold a container's port and do none of its work.
_STAND_INS = ("docker-proxy", "rootlessport", "slirp4netns", "pasta")


def is_here(endpoint: Endpoint) -> bool:
    """Whether the server's address is one of this machine's; false where it has none."""
    if is_local(endpoint):
        return True
    with suppress(OSError):
        found = beside(lambda: socket.getaddrinfo(endpoint.host, endpoint.port)).result()
        asked = {info[4][0] for info in found}
        return bool(asked & _own_addresses())
    return False


def listener(endpoint: Endpoint) -> int | None:
    """The process that listens on the port; null where this user may not see it, or a stand-in."""
    with suppress(psutil.Error, OSError):
        pids = {
            each.pid
            for each in psutil.net_connections("tcp")
            if each.status == psutil.CONN_LISTEN and each.laddr and each.laddr.port == endpoint.port
        }
        known = [pid for pid in pids if pid is not None]
        # Workers that share a socket are below the one that opened it, which began first.
        first = min(map(psutil.Process, known), key=psutil.Process.create_time, default=None)
        if first and None not in pids and first.name() not in _STAND_INS:
            return first.pid
    return None


def _own_addresses() -> set[str]:
    addresses = (each for own in psutil.net_if_addrs().values() for each in own)
    return {each.address.partition("%")[0] for each in addresses}
