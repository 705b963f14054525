"""Where a server is: one URL, taken apart once."""

import re
from dataclasses import dataclass
from ipaddress import IPv6Address
from urllib.parse import quote, urlsplit

_NAME = re.compile(r"[a-z0-9_.-]+")
_PASSWORD = re.compile(r"//.*@")


class EndpointError(ValueError):
    """The URL cannot be used; the message is one line that says why."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server's root. `base` is the path before `/v1`, empty or starting with a slash.

    `host` is in ASCII; of an IPv6 address it has the zone, which this machine alone knows.
    """

    host: str
    port: int
    tls: bool = False
    base: str = ""

    @property
    def netloc(self) -> str:
        """Host and port as a URL writes them."""
        return self._with_port(self.host)

    @property
    def name(self) -> str:
        """The host as others know it, as on a certificate."""
        return self.host.partition("%")[0]

    @property
    def authority(self) -> str:
        """What the Host header says."""
        return self._with_port(self.name)

    def _with_port(self, host: str) -> str:
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The root without a trailing slash and without `/v1`."""
        return f"{'https' if self.tls else 'http'}://{self.netloc}{self.base}"


def parse_endpoint(url: str) -> Endpoint:
    """Take a root URL apart, with or without `/v1`.

    Raises:
        EndpointError: not an http or https URL with a host.
    """
    shown = _PASSWORD.sub("//***@", url)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise EndpointError(f"--url {shown}: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise EndpointError(f"--url {shown}: give a root such as http://127.0.0.1:8000")
    if parts.username or parts.password:
        raise EndpointError("--url holds a password: give keys by --api-key-env instead")
    if parts.query or parts.fragment:
        raise EndpointError(f"--url {shown}: give the server's root, without ? or #")
    if port == 0:
        raise EndpointError(f"--url {shown}: nothing listens on port 0; give the server's port")
    tls = parts.scheme == "https"
    base = quote(parts.path.rstrip("/").removesuffix("/v1"), safe="/%:@!$&'()*+,;=~")
    return Endpoint(_host(parts.hostname), port or (443 if tls else 80), tls, base)


def _host(name: str) -> str:
    """A host name in ASCII, or an address; an IPv6 zone may be written %25eth0 or %eth0."""
    try:
        if ":" in name:
            address, _, zone = name.partition("%")
            zone = zone.removeprefix("25")
            return str(IPv6Address(f"{address}%{zone}" if zone else address))
        ascii_name = name.encode("idna").decode()
    except ValueError as error:
        raise EndpointError(f"--url: {name!r} is no host name and no address") from error
    if not _NAME.fullmatch(ascii_name):
        raise EndpointError(f"--url: {name!r} is no host name and no address")
    return ascii_name
