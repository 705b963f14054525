"""The simulated server: routes requests, and runs until it is told to stop."""

import asyncio
import socket
import sys
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from secrets import token_hex
from time import time_ns
from urllib.parse import parse_qs, urlsplit

from msgspec import json

from bench_client.records import Api
from bench_client.wire import stamps

from . import asks, side
from .answers import Answer, Stream, Whole
from .connection import Connection, Request
from .engine import Engine
from .engine_log import EngineLog
from .faults import Fault, answer_instead
from .faults import parse as parse_fault
from .faulty_stream import FaultyStream
from .generate_payloads import GeneratePayloads
from .openai_payloads import OpenAiPayloads
from .pacing import EnginePacer, FixedPacer
from .payloads import Flavour, Names, Payloads, error_answer
from .send_log import SendLog
from .sequence import EngineSettings, Sequence

_GENERATION: dict[str, Api] = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
    "/generate": "generate",
}
_OPEN_PATHS = ("/health", "/health_generate", "/ready", "/metrics")
_BACKLOG = 4096


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """What the command line says. `fixed_ms` is (TTFT, ITL) of the mode without an engine."""

    engine: EngineSettings
    host: str = "127.0.0.1"
    port: int = 30_000
    model: str = "sim"
    draft_model: str | None = None
    flavour: Flavour = "vllm"
    send_log: Path | None = None
    fault: Fault | None = None
    startup_delay_s: float = 0.0
    fixed_ms: tuple[float, float] | None = None
    api_key: str | None = None


class Server:
    """The listening socket and what all connections share."""

    def __init__(self, settings: ServerSettings, loop: asyncio.AbstractEventLoop) -> None:
        self._settings = settings
        self._loop = loop
        self._created = time_ns() // 1_000_000_000
        self._id_prefix, self._ids = f"sim-{token_hex(8)}", count()
        self._engine = Engine(settings.engine)
        self.log = EngineLog(self._engine, sys.stdout.write, time_ns())
        self.send_log = SendLog(settings.send_log)
        self._pacer: FixedPacer | EnginePacer
        if settings.fixed_ms:
            ttft_ns, itl_ns = (int(ms * 1e6) for ms in settings.fixed_ms)
            self._pacer = FixedPacer(loop, self._engine.counters, ttft_ns, itl_ns)
        else:
            self._pacer = EnginePacer(loop, self._engine, self.log.observe)

    def listen(self) -> None:
        """Bind and accept; raises OSError where the port is taken."""
        family = socket.AF_INET6 if ":" in self._settings.host else socket.AF_INET
        self._listener = socket.socket(family)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((self._settings.host, self._settings.port))
        self._listener.setblocking(False)
        stamps.enable(self._listener)  # accepted sockets inherit it before their first bytes come
        self._listener.listen(_BACKLOG)
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            if self._settings.fault and self._settings.fault.kind == "refuse":
                sock.close()
                continue
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            Connection(sock, self._loop, self._handle)

    def _handle(self, conn: Connection, request: Request) -> None:
        path = urlsplit(request.target).path
        key = self._settings.api_key
        wrong_key = key and request.headers.get("authorization") != f"Bearer {key}"
        if wrong_key and path not in _OPEN_PATHS:
            self._error(conn, 401, "AuthenticationError", "Unauthorized: wrong or no API key")
        elif api := _GENERATION.get(path):
            if request.method == "POST":
                self._generate(conn, request, api)
            else:
                self._error(conn, 405, "MethodNotAllowedError", f"{path} takes POST")
        else:
            self._side(conn, request, path)

    def _error(self, conn: Connection, code: int, kind: str, message: str) -> None:
        conn.respond(code, error_answer(self._settings.flavour, code, kind, message))

    def _generate(self, conn: Connection, request: Request, api: Api) -> None:
        try:
            ask = asks.read(api, request.body)
            fault = parse_fault(ask.fault) if ask.fault else self._settings.fault
            self._check(ask)
        except LookupError as error:
            self._error(conn, 404, "NotFoundError", str(error.args[0]))
            return
        except ValueError as error:
            self._error(conn, 400, "BadRequestError", str(error))
            return
        if fault and fault.instead and fault.kind != "not_a_stream":
            answer_instead(fault, conn, self._settings.flavour)
            return
        sampling = fault.sampling(ask.sampling) if fault else ask.sampling
        sequence = Sequence(ask.prompt, sampling, self._settings.engine)
        id_ = request.headers.get("x-request-id") or f"{self._id_prefix}-{next(self._ids):x}"
        payloads = self._payloads(ask, id_, sequence)
        entry = self.send_log.open(id_, request.received_ns, sequence)
        answer: Answer
        if not ask.stream or (fault and fault.kind == "not_a_stream"):
            answer = Whole(conn, payloads, entry)
        elif fault:
            answer = FaultyStream(fault, conn, payloads, entry)
        else:
            answer = Stream(conn, payloads, entry)
        self._run(answer)

    def _run(self, answer: Answer) -> None:
        started = False

        def start() -> None:
            nonlocal started
            if not answer.ended:
                started = True
                self._pacer.add(answer)

        def end(answer: Answer) -> None:
            self.send_log.close(answer.entry)
            if started:
                self._pacer.remove(answer)

        answer.on_end = end
        answer.begin(start)

    def _check(self, ask: asks.Ask) -> None:
        settings = self._settings
        if settings.flavour == "vllm" and ask.model not in ("", settings.model):
            raise LookupError(f"The model `{ask.model}` does not exist: this is `{settings.model}`")
        if settings.flavour == "sglang" and ask.api == "chat" and ask.stream and ask.token_ids:
            raise ValueError("return_token_ids is not supported with stream in chat completions")

    def _payloads(self, ask: asks.Ask, id_: str, sequence: Sequence) -> Payloads:
        names = Names(id_, time_ns() // 1_000_000_000, self._settings.model)
        if ask.api == "generate":
            return GeneratePayloads(names, sequence)
        return OpenAiPayloads(ask, names, self._settings.flavour, sequence)

    def _side(self, conn: Connection, request: Request, path: str) -> None:
        settings, engine = self._settings, self._engine
        match path:
            case "/health" | "/health_generate" | "/ready":
                conn.respond(200, b"")
            case "/v1/models":
                conn.respond(
                    200, json.encode(side.models(settings.model, settings.flavour, self._created))
                )
            case "/metrics":
                text = side.metrics(settings.model, engine, self.log)
                conn.respond(200, text, "text/plain; version=0.0.4; charset=utf-8")
            case "/server_info" | "/get_server_info":
                info = side.server_info(settings.model, settings.draft_model, engine, self.log)
                conn.respond(200, json.encode(info))
            case "/model_info" | "/get_model_info":
                conn.respond(200, json.encode(side.model_info(settings.model)))
            case "/version":
                conn.respond(200, json.encode({"version": side.VERSION, "simulated": True}))
            case "/flush_cache":
                self._flush(conn)
            case "/reset_prefix_cache":
                engine.cache.clear()
                conn.respond(200, b'{"success":true}')
            case "/send_log":
                self._send_log(conn, request)
            case _:
                conn.respond(404, b'{"detail":"Not Found"}')

    def _flush(self, conn: Connection) -> None:
        """SGLang's `/flush_cache` refuses while requests are in the engine."""
        if self._engine.running or self._engine.waiting:
            conn.respond(400, b"Cache not flushed because of pending requests.", "text/plain")
            return
        self._engine.cache.clear()
        self.log.reset()
        conn.respond(200, b"Cache flushed.\n", "text/plain")

    def _send_log(self, conn: Connection, request: Request) -> None:
        reset = parse_qs(urlsplit(request.target).query).get("reset", ["0"])[-1] == "1"
        lines = b"" if request.method == "DELETE" else self.send_log.lines()
        if reset or request.method == "DELETE":
            self.send_log.clear()
        conn.respond(200, lines, "application/jsonl")
