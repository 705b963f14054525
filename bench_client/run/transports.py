"""Which transport carries a run, built from values that can travel to a worker."""

import ssl
from typing import Literal

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

    chosen = HttpxTransport if spec.kind == "httpx" else OpenAITransport
    try:
        return chosen(endpoint, spec.headers, spec.limits, tls)
    except ModuleNotFoundError as error:
        hint = "pip install 'bench-client[openai]'"
        raise EndpointError(f"--transport openai needs the openai package: {hint}") from error
    except (ImportError, ValueError) as error:  # httpx says what it cannot do with a proxy
        raise EndpointError(f"--transport {spec.kind}: {error}") from error


def tls_context(endpoint: Endpoint, ca: str | None, *, insecure: bool) -> ssl.SSLContext | None:
    """How to trust the server; null for plain http.

    Raises:
        EndpointError: the CA file cannot be read.
    """
    if not endpoint.tls:
        return None
    try:
        context = ssl.create_default_context(cafile=ca)
    except ssl.SSLError as error:
        raise EndpointError(f"--ca {ca}: no certificate in PEM form there") from error
    except OSError as error:
        raise EndpointError(f"--ca {ca}: {error.strerror}") from error
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
