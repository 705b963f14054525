"""Fault mode: answers that go wrong in one chosen way, so that a client can be judged by them."""

from dataclasses import dataclass

from .connection import Connection
from .payloads import Flavour, error_answer
from .sequence import Sampling

_INSTEAD = ("refuse", "reset_before", "never_answers", "http", "not_a_stream", "html_200")
_AFTER_TOKENS = (
    "reset_after",
    "truncated_chunk",
    "truncated_stream",
    "no_end",
    "error_after",
    "error_string",
    "abort",
    "stall",
    "die",
)
# The answer itself is right.
_SHAPES = (
    "big_event",
    "many_events",
    "close_idle",
    "http10",
    "content_length",
    "chunk_extensions",
    "trailers",
    "one_byte",
    "slow_headers",
    "no_done",
    "crlf",
    "comments",
    "nospace",
)
KINDS = (*_INSTEAD, "error_before", "endless", *_AFTER_TOKENS, *_SHAPES)

_HTTP_CODES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    404: "NotFoundError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
    500: "InternalServerError",
    503: "ServiceUnavailableError",
}
_HTML = b"<html><body><h1>%b</h1><p>This came from a proxy.</p></body></html>\n"
MESSAGE = "The simulated fault that was asked for"
_MANY_EVENTS = 20_000
_ENDLESS = 1_000_000


@dataclass(frozen=True)
class Fault:
    """One kind of fault; it strikes `after` so many tokens. `code` is the HTTP status."""

    kind: str
    after: int | None = None
    code: int = 0
    html: bool = False

    @property
    def instead(self) -> bool:
        """Whether there is no stream at all."""
        return self.kind in _INSTEAD

    def sampling(self, asked: Sampling) -> Sampling:
        """What to generate: a fault may need an answer of its own length."""
        if self.kind == "many_events":
            return Sampling(_MANY_EVENTS, asked.temperature, asked.seed, ignore_eos=True)
        if self.kind == "endless":
            return Sampling(_ENDLESS, asked.temperature, asked.seed, ignore_eos=True)
        return asked


def parse(text: str) -> Fault:
    """Read KIND[:ARG]; ValueError says what was expected."""
    kind, _, argument = text.partition(":")
    if kind not in KINDS:
        raise ValueError(f"unknown fault {kind!r}: one of {', '.join(KINDS)}")
    if kind == "http":
        code, _, body = argument.partition(":")
        if not code.isdecimal() or int(code) not in _HTTP_CODES or body not in ("", "html"):
            codes = "|".join(map(str, _HTTP_CODES))
            raise ValueError(f"fault {text!r}: write http:{codes}, with :html for an HTML body")
        return Fault(kind, code=int(code), html=body == "html")
    if kind in _AFTER_TOKENS:
        if not argument.isdecimal():
            raise ValueError(f"fault {text!r}: write {kind}:N with N tokens sent before it")
        return Fault(kind, after=int(argument))
    if argument:
        raise ValueError(f"fault {text!r}: {kind} takes no argument")
    return Fault(kind, after=0 if kind == "error_before" else None)


def answer_instead(fault: Fault, conn: Connection, flavour: Flavour) -> None:
    """Carry out a fault that replaces the answer, but `not_a_stream`."""
    match fault.kind:
        case "reset_before":
            conn.reset()
        case "refuse":
            conn.close()
        case "html_200":
            conn.respond(200, _HTML % b"Welcome", "text/html")
        case "http":
            retry = (("retry-after", "1"),) if fault.code == 429 else ()
            if fault.html:
                conn.respond(fault.code, _HTML % b"%d" % fault.code, "text/html", retry)
            else:
                kind = _HTTP_CODES[fault.code]
                body = error_answer(flavour, fault.code, kind, MESSAGE)
                conn.respond(fault.code, body, extra=retry)
        case _:  # never_answers: the connection stays open and busy
            pass
