"""Proxies: who goes through one, and who may not."""

from ipaddress import ip_address
from urllib.request import getproxies, proxy_bypass

from bench_client.wire.endpoint import Endpoint, EndpointError


def is_local(endpoint: Endpoint) -> bool:
    """Whether the server is on this machine, which no proxy may come between."""
    try:
        return ip_address(endpoint.host).is_loopback
    except ValueError:
        return endpoint.host == "localhost"


def check_proxy(endpoint: Endpoint) -> None:
    """Refuse what the wire cannot do: it speaks to the server itself, never through a proxy.

    Raises:
        EndpointError: a proxy variable covers this server.
    """
    if is_local(endpoint):
        return
    scheme = "https" if endpoint.tls else "http"
    found = getproxies()
    name = next((f"{key}_proxy" for key in (scheme, "all") if key in found), None)
    if name and not proxy_bypass(endpoint.host):
        raise EndpointError(
            f"{name} is set and covers {endpoint.host}, but --transport wire speaks to the server "
            "itself: add the host to no_proxy, or take --transport httpx"
        )
