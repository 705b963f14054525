"""What may stand between a client and the embedded engine, as a process of its own.

`python -m tests.wire.relay PORT TARGET_PORT` passes bytes on, both ways. It terminates TLS
(--cert), cuts what the client gets into small segments (--pieces), or prints the request lines that
it passes on (--log), as a forwarding proxy would that takes every host for this machine.
"""

import argparse
import asyncio
import contextlib
import socket
import ssl
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import free_port

RESET = struct.pack("ii", 1, 0)  # no lingering: close sends RST
PAUSE_S = 0.001  # long enough for a segment to arrive by itself


async def _serve(options: argparse.Namespace) -> None:
    context = None
    if options.cert:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.cert)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection("127.0.0.1", options.target)
        there = _pass_on(reader, requests, 0, log=options.log)
        await asyncio.gather(there, _pass_on(answers, writer, options.pieces))

    server = await asyncio.start_server(connected, options.host, options.port, ssl=context)
    _say("ready")
    await server.serve_forever()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, piece: int, *, log: bool = False
) -> None:
    try:
        while data := await reader.read(1 << 16):
            if log:
                for line in data.decode("latin-1").split("\r\n"):
                    if line.endswith(" HTTP/1.1"):
                        _say(line)
            for at in range(0, len(data), piece or len(data)):
                writer.write(data[at : at + (piece or len(data))])
                await writer.drain()
                await asyncio.sleep(PAUSE_S if piece else 0)
    except OSError:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        writer.transport.abort()
    else:
        with contextlib.suppress(OSError):
            writer.close()


@contextmanager
def relay(
    target: int, *arguments: str | Path, host: str = "127.0.0.1", log: Path | None = None
) -> Iterator[int]:
    """A running relay's port; `log` gets the request lines."""
    port = free_port()
    given = [str(port), str(target), "--host", host, *map(str, arguments)]
    command = [sys.executable, "-m", "tests.wire.relay", *given, *(["--log"] if log else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            yield port
        finally:
            process.kill()
            if log and process.stdout:
                log.write_text(process.stdout.read())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("target", type=int)
    parser.add_argument("--host", required=True)
    parser.add_argument("--cert")
    parser.add_argument("--pieces", type=int, default=0)
    parser.add_argument("--log", action="store_true")
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
