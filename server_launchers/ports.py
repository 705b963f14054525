"""Who listens on a port. Edge: sockets and the process table."""

import errno
import socket

import psutil

ANY = ("0.0.0.0", "::")  # noqa: S104  (compared with, not bound to)


def is_free(host: str, port: int) -> bool:
    """Whether a server could bind there now. OSError if the address is not this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


def listeners(host: str, port: int) -> set[int | None]:
    """The processes that answer there; None stands for one that this user may not see.

    Empty also where the system tells only root (psutil.AccessDenied).
    """
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:
        return set()
    answering = {host, *ANY}
    return {
        each.pid
        for each in connections
        if each.status == psutil.CONN_LISTEN and each.laddr
        if each.laddr.port == port and each.laddr.ip in answering
    }


def holder(host: str, port: int) -> str:
    """Who holds the port, for a message: `pid 123 (python3 -m http.server)`."""
    for pid in listeners(host, port):
        if pid is None:
            continue
        try:
            process = psutil.Process(pid)
            words = process.cmdline() or [process.name()]
        except psutil.Error:
            continue
        return f"pid {pid} ({' '.join(words)[:80]})"
    return "a process of another user or container"
