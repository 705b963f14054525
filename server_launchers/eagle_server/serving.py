"""HTTP: one thread a connection, one server-sent event a step."""

import logging
import socket
import socketserver
import sys
from collections.abc import Callable
from contextlib import closing
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .answers import DONE, encode, error_body, sse
from .asks import BadRequestError
from .service import Job, Service
from .turnstile import ClientLeftError

JSON = "application/json"
STREAM = "text/event-stream; charset=utf-8"
METRICS = "text/plain; version=0.0.4; charset=utf-8"
CHATS = {"/v1/chat/completions": True, "/v1/completions": False}

log = logging.getLogger(__name__)


class Server(ThreadingHTTPServer):
    """Holds its port from the start, and listens from `open` on, when the model is loaded."""

    request_queue_size = 128
    service: Service

    def __init__(self, host: str, port: int) -> None:
        """Raises OSError where the port is taken."""
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), Handler, bind_and_activate=False)
        try:
            self.server_bind()
        except OSError:
            self.server_close()
            raise

    def server_bind(self) -> None:
        """Bind without HTTPServer's look-up of the host's full name, which can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.socket.getsockname()[:2]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client may go as it likes; anything else is worth a traceback."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            log.exception("a connection failed")

    def open(self, service: Service) -> None:
        """Start to listen; `serve_forever` answers."""
        self.service = service
        self.server_activate()


class Handler(BaseHTTPRequestHandler):
    """The requests of one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        """The endpoints beside generation."""
        service = self.server.service
        answers: dict[str, Callable[[], tuple[str, bytes]]] = {
            "/health": lambda: ("text/plain", b""),
            "/v1/models": lambda: (JSON, encode(service.models())),
            "/version": lambda: (JSON, encode(service.versions)),
            "/server_info": lambda: (JSON, encode(service.info())),
            "/metrics": lambda: (METRICS, service.totals.prometheus(service.name)),
        }
        answer = answers.get(self._path())
        if answer is None:
            self._refuse(f"there is no {self._path()} here", HTTPStatus.NOT_FOUND)
        else:
            self._whole(*answer())

    def do_POST(self) -> None:
        """A chat or a completion."""
        try:
            self._generate(self._job())
        except BadRequestError as error:
            self._refuse(str(error), error.status)
        except (ClientLeftError, ConnectionError):
            log.info("a client left before its answer had ended")
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """No line a request: the engine's own say more."""

    def _path(self) -> str:
        return self.path.partition("?")[0]

    def _job(self) -> Job:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self.close_connection = True  # where its next request would begin is unknown
            raise BadRequestError("send the body with a Content-Length", HTTPStatus.LENGTH_REQUIRED)
        body = self.rfile.read(int(length))
        if self._path() not in CHATS:
            raise BadRequestError(f"there is no {self._path()} here", HTTPStatus.NOT_FOUND)
        return self.server.service.job(body, CHATS[self._path()])

    def _generate(self, job: Job) -> None:
        stream = _Stream(self) if job.ask.stream else None
        answer = self.server.service.answer(job)
        try:
            with closing(self.server.service.steps(job, self._left)) as steps:
                for step in steps:
                    event = answer.add(step)
                    if stream:
                        stream.write(event)
        except (ClientLeftError, ConnectionError):
            raise
        except Exception as error:
            log.exception("the generation failed")
            self._fail(error, stream)
            return
        log.info("%s", answer)
        if stream:
            stream.end(answer.tail())
        else:
            self._whole(JSON, encode(answer.whole()))

    def _fail(self, error: Exception, stream: "_Stream | None") -> None:
        message = f"{type(error).__name__}: {error}"
        if stream and stream.begun:
            stream.end(sse(error_body(message, HTTPStatus.INTERNAL_SERVER_ERROR)) + DONE)
        else:
            self._refuse(message, HTTPStatus.INTERNAL_SERVER_ERROR)

    def _left(self) -> bool:
        """Whether the client has closed its end. Bytes that wait are its next request."""
        try:
            waiting = self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return not waiting

    def _refuse(self, message: str, status: int) -> None:
        self._whole(JSON, encode(error_body(message, int(status))), int(status))

    def _whole(self, kind: str, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


class _Stream:
    """A chunked response, begun by its first event: what fails before that has a status."""

    def __init__(self, handler: Handler) -> None:
        self.begun = False
        self._handler = handler

    def write(self, data: bytes) -> None:
        """Send in one piece, so that the client reads it in one."""
        if not self.begun:
            self.begun = True
            self._handler.send_response(HTTPStatus.OK)
            self._handler.send_header("Content-Type", STREAM)
            self._handler.send_header("Transfer-Encoding", "chunked")
            self._handler.end_headers()
        self._handler.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self, data: bytes) -> None:
        """Send the last piece and the end of the body."""
        self._handler.wfile.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data))
