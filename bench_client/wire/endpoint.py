"""Where a server is: one URL, taken apart once."""

from dataclasses import dataclass
from urllib.parse import urlsplit


class EndpointError(ValueError):
    """The URL cannot be used; the message is one line that says why."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server's root. `base` is the path before `/v1`, empty or starting with a slash."""

    host: str
    port: int
    tls: bool = False
    base: str = ""

    @property
    def netloc(self) -> str:
        """Host and port as a URL and the Host header write them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The root without a trailing slash and without `/v1`."""
        return f"{'https' if self.tls else 'http'}://{self.netloc}{self.base}"


def parse_endpoint(url: str) -> Endpoint:
    """Take a root URL apart, with or without `/v1`.

    Raises:
        EndpointError: not an http or https URL with a host.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise EndpointError(f"--url {url}: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise EndpointError(f"--url {url}: give a root such as http://127.0.0.1:8000")
    if parts.username or parts.password:
        raise EndpointError("--url holds a password: give keys by --api-key-env instead")
    if parts.query or parts.fragment:
        raise EndpointError(f"--url {url}: give the server's root, without ? or #")
    tls = parts.scheme == "https"
    base = parts.path.rstrip("/").removesuffix("/v1")
    return Endpoint(parts.hostname, port or (443 if tls else 80), tls, base)
