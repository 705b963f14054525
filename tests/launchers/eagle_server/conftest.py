"""The real HTTP server around a double, on a free port."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from server_launchers.eagle_server.service import Service
from server_launchers.eagle_server.serving import Server

from .double import TREE, EaModel, engine

Start = Callable[..., str]


@pytest.fixture
def start() -> Iterator[Start]:
    """Serves a double on a free port and returns its root URL."""
    running: list[tuple[Server, threading.Thread]] = []

    def serve(ea: EaModel, **changes: Any) -> str:
        server = Server("127.0.0.1", 0)
        server.open(Service(engine(ea, replace(TREE, **changes)), "m", {"version": "abc1234"}))
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        running.append((server, thread))
        return f"http://127.0.0.1:{server.server_port}"

    yield serve
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()
