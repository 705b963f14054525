"""Kernel receive stamps: when bytes reached this host, however late the program reads them."""

import socket
import struct
import sys
from time import time_ns

from bench_client.records import StampSource

# SO_TIMESTAMPNS of asm-generic/socket.h (x86_64, aarch64); Python's socket module has no name for
# it. The control message that carries a stamp has the same number.
_SO_TIMESTAMPNS = 35
_timespec = struct.Struct("@qq").unpack  # struct timespec, 64 bit
_ROOM = socket.CMSG_SPACE(16) if hasattr(socket, "CMSG_SPACE") else 0
_SUPPORTED = sys.platform == "linux" and struct.calcsize("@l") == 8


def enable(sock: socket.socket) -> StampSource:
    """Ask the kernel to stamp what `sock` receives; accepted sockets inherit it from a listener.

    Returns "user" where the kernel cannot: `recv_stamped` then stamps after the read.
    """
    if not _SUPPORTED:
        return "user"
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    except OSError:
        return "user"
    return "kernel"


if sys.platform == "win32":

    def recv_stamped(sock: socket.socket, size: int) -> tuple[int, bytes]:
        """Read up to `size` bytes and stamp them (CLOCK_REALTIME, ns); raises as `recv` does."""
        data = sock.recv(size)
        return time_ns(), data

else:

    def recv_stamped(sock: socket.socket, size: int) -> tuple[int, bytes]:
        """Read up to `size` bytes: when they arrived (CLOCK_REALTIME, ns) and the bytes.

        A read that joins several segments carries the stamp of the last one. Empty bytes are the
        end of the stream. Raises as `recv` does: BlockingIOError when there is nothing to read.
        """
        data, messages, _, _ = sock.recvmsg(size, _ROOM)
        if messages:  # no other option that adds control messages is ever set
            seconds, nanoseconds = _timespec(messages[0][2])
            return seconds * 1_000_000_000 + nanoseconds, data
        return time_ns(), data
