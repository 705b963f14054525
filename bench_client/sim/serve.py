"""The process around the server: its event loop, its first log lines and its end."""

import asyncio
import gc
import io
import selectors
import signal
import sys
from time import time_ns

from bench_client.wire import open_files

from . import side
from .pacing import PreciseSelector
from .server import Server, ServerSettings
from .vocabulary import tape


def serve(settings: ServerSettings) -> None:
    """Serve until SIGINT or SIGTERM; raises OSError where the port cannot be bound."""
    open_files.allow(0)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    with asyncio.Runner(loop_factory=_event_loop) as runner:
        runner.run(_serve(settings))


def _event_loop() -> asyncio.AbstractEventLoop:
    # Tokens go out by direct send calls, so that uvloop has little to speed up here, and its timers
    # are whole milliseconds.
    if sys.platform == "linux":
        return asyncio.SelectorEventLoop(PreciseSelector())
    return asyncio.SelectorEventLoop(selectors.DefaultSelector())


async def _serve(settings: ServerSettings) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    server = Server(settings, loop)
    _announce(settings, server)
    tape("en"), tape("zh")  # now, not within the first request's time
    await asyncio.sleep(settings.startup_delay_s)  # engines bind their port after loading
    server.listen()
    server.log.say(time_ns(), "The server is fired up and ready to roll!")
    gc.freeze()
    await stop.wait()
    server.send_log.shut()


def _announce(settings: ServerSettings, server: Server) -> None:
    """Say what SGLang's log says before it serves, as far as parsers look at it."""
    arguments = {
        "model_path": settings.model,
        "host": settings.host,
        "port": settings.port,
        "max_running_requests": settings.engine.max_running_requests,
        **side.speculative_arguments(settings.draft_model, settings.engine.spec_steps),
    }
    listed = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    server.log.say(time_ns(), f"bench_client.sim {side.VERSION}: a simulated engine")
    server.log.say(time_ns(), f"server_args=ServerArgs({listed})")
