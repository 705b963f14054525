"""Addresses of servers on this machine."""


def root(host: str, port: int) -> str:
    """The URL to reach a server bound to `host`: an any-address becomes loopback."""
    reach = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104
    return f"http://[{reach}]:{port}" if ":" in reach else f"http://{reach}:{port}"
