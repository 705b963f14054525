"""Looking up names: a name server that does not answer must not hold up the end of a run."""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")


def beside(call: Callable[[], T]) -> Future[T]:
    """Run it in a thread that nothing waits for: its future can be given up, unlike an executor's.

    A signal ends waiting for the future in the main thread, where it would not end the call.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 (it is raised where it is waited for)
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


class _Loop(uvloop.Loop):
    """uvloop's, but for look-ups, which it would wait for before it closes."""

    async def getaddrinfo(
        self,
        host: Any,
        port: Any,
        *,
        family: int = 0,
        type: int = 0,  # noqa: A002 (asyncio's name)
        proto: int = 0,
        flags: int = 0,
    ) -> Any:
        look_up = partial(socket.getaddrinfo, host, port, family, type, proto)
        try:
            return look_up(flags | socket.AI_NUMERICHOST)  # an address needs no server
        except socket.gaierror:
            return await asyncio.wrap_future(beside(partial(look_up, flags)), loop=self)


def run(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` on that loop."""
    return uvloop.run(main, loop_factory=_Loop)
