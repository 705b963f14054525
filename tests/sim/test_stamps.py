"""Kernel receive stamps."""

import socket
import time
from collections.abc import Iterator

import pytest

from bench_client.wire.stamps import enable, recv_stamped


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A stamping listener's accepted socket, and its peer."""
    with socket.socket() as listener:
        assert enable(listener) == "kernel"
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with socket.create_connection(listener.getsockname()) as peer:
            accepted, _ = listener.accept()
            with accepted:
                accepted.setblocking(False)
                yield accepted, peer


def test_stamp_is_of_the_arrival_not_of_the_read(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    accepted, peer = pair  # stamps come by inheritance
    before = time.time_ns()
    peer.send(b"early")
    after = time.time_ns()
    time.sleep(0.05)
    stamp, data = recv_stamped(accepted, 100)
    assert data == b"early"
    assert before <= stamp <= after + 5_000_000
    assert time.time_ns() - stamp > 45_000_000


def test_a_joined_read_carries_the_last_segments_stamp(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    accepted, peer = pair
    peer.send(b"a")
    time.sleep(0.03)
    before = time.time_ns()
    peer.send(b"b")
    time.sleep(0.03)
    stamp, data = recv_stamped(accepted, 100)
    assert data == b"ab"
    assert before <= stamp < before + 20_000_000


def test_nothing_to_read_and_the_end(pair: tuple[socket.socket, socket.socket]) -> None:
    accepted, peer = pair
    with pytest.raises(BlockingIOError):
        recv_stamped(accepted, 100)
    peer.close()
    time.sleep(0.01)
    stamp, data = recv_stamped(accepted, 100)
    assert data == b""
    assert abs(time.time_ns() - stamp) < 1_000_000_000


def test_without_kernel_stamps_the_read_is_stamped() -> None:
    left, right = socket.socketpair()
    with left, right:
        before = time.time_ns()
        left.send(b"x")
        stamp, data = recv_stamped(right, 10)
        assert data == b"x"
        assert before <= stamp <= time.time_ns()
