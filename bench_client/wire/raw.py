"""What a transport hands over: one response as it came, stamped, not yet understood."""

from dataclasses import dataclass, field

from bench_client.records import Failure, StampSource


@dataclass(slots=True)
class RawResponse:
    """One exchange. Instants are CLOCK_REALTIME in ns; `reads` are (arrival, body bytes).

    Body bytes are free of HTTP framing. `fault` is a failure of the transport (refused, reset,
    stalled, truncated framing); `clean_end` says that the HTTP message ended as it announced.
    `rate_limited` counts answers of 429 that were waited for before this one.
    """

    sent_ns: int | None = None
    done_ns: int | None = None
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    reads: list[tuple[int, bytes]] = field(default_factory=list)
    stamps: StampSource = "user"
    clean_end: bool = False
    reopened: bool = False
    rate_limited: int = 0
    fault: Failure | None = None

    @property
    def content_type(self) -> str:
        """The media type without parameters, in lower case; empty where there is none."""
        named = (value for name, value in self.headers.items() if name.lower() == "content-type")
        return next(named, "").partition(";")[0].strip().lower()

    @property
    def is_stream(self) -> bool:
        """Whether the body is said to be an event stream."""
        return self.content_type == "text/event-stream"
