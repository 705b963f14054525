"""Which transport carries a run, built from values that can travel to a worker."""

import ssl
from typing import Literal
from urllib.request import getproxies, proxy_bypass

from msgspec import Struct

from bench_client.wire.client import WireTransport
from bench_client.wire.endpoint import Endpoint, EndpointError, parse_endpoint
from bench_client.wire.paced import PacedTransport, Pacing
from bench_client.wire.transport import Limits, Transport

Kind = Literal["wire", "httpx", "openai"]


class TransportSpec(Struct, frozen=True, kw_only=True):
    """Everything a transport needs. `headers` may hold a key: never written to results."""

    url: str
    kind: Kind = "wire"
    headers: dict[str, str] = {}
    limits: Limits = Limits()
    ca: str | None = None
    insecure: bool = False
    pacing: Pacing = Pacing()


def make_transport(spec: TransportSpec) -> Transport:
    """The transport, not yet connected.

    Raises:
        EndpointError: the URL cannot be used by it, or its package is missing.
    """
    transport = _unpaced(spec)
    paced = spec.pacing.requests or spec.pacing.retry_429
    return PacedTransport(transport, spec.pacing) if paced else transport


def _unpaced(spec: TransportSpec) -> Transport:
    endpoint = parse_endpoint(spec.url)
    tls = tls_context(endpoint, spec.ca, insecure=spec.insecure)
    if spec.kind == "wire":
        return WireTransport(endpoint, spec.headers, spec.limits, tls)
    from bench_client.wire.sdk import HttpxTransport, OpenAITransport  # noqa: PLC0415 (slow)

    if spec.kind == "httpx":
        return HttpxTransport(endpoint, spec.headers, spec.limits, tls)
    try:
        return OpenAITransport(endpoint, spec.headers, spec.limits, tls)
    except ImportError as error:
        hint = "pip install 'bench-client[openai]'"
        raise EndpointError(f"--transport openai needs the openai package: {hint}") from error


def tls_context(endpoint: Endpoint, ca: str | None, *, insecure: bool) -> ssl.SSLContext | None:
    """How to trust the server; null for plain http.

    Raises:
        EndpointError: the CA file cannot be read.
    """
    if not endpoint.tls:
        return None
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise EndpointError(f"--ca {ca}: {getattr(error, 'strerror', None) or error}") from error
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def check_proxy(endpoint: Endpoint) -> None:
    """Refuse what the wire cannot do: it speaks to the server itself, never through a proxy.

    A server on this machine is never asked through one.

    Raises:
        EndpointError: a proxy variable covers this server.
    """
    if endpoint.host in {"localhost", "127.0.0.1", "::1"}:
        return
    scheme = "https" if endpoint.tls else "http"
    found = getproxies()
    if (scheme in found or "all" in found) and not proxy_bypass(endpoint.host):
        name = f"{scheme}_proxy" if scheme in found else "all_proxy"
        raise EndpointError(
            f"{name} is set and covers {endpoint.host}, but --transport wire speaks to the server "
            "itself: add the host to no_proxy, or take --transport httpx"
        )
