"""Server-sent events: bytes in, data payloads out (WHATWG HTML, 9.2.6)."""

import re
from collections.abc import Sequence

_BOM = b"\xef\xbb\xbf"
MAX_EVENT_BYTES = 64 << 20
_DATA = re.compile(rb"[\r\n]data: ?+[^\r\n]")  # the shortest match tells for the whole line
_TELLING = len(b"\ndata: x")


class SseError(ValueError):
    """The stream can't be read on: an event outgrew the bound."""


class SseParser:
    """Cuts an event stream into the data of its events, however the bytes were split.

    Only `data` is kept: `event`, `id`, `retry` and comments carry nothing that is measured here.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_event_bytes = max_event_bytes
        self._unfinished = bytearray()
        self._at_start = True
        self._after_cr = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes; return the data of every event that they complete, in order.

        Raises SseError when an event is longer than `max_event_bytes`.
        """
        blocks = self._complete_blocks(self._lf_only(data))
        payloads = [
            block[6:] if block.startswith(b"data: ") and b"\n" not in block else _payload(block)
            for block in blocks
        ]
        return [payload for payload in payloads if payload is not None]

    @property
    def pending(self) -> bool:
        """Whether an event has begun and not ended: at the end of a stream, the event is lost."""
        lines = bytes(self._unfinished).removeprefix(_BOM).split(b"\n")
        return any(line and not line.startswith(b":") for line in lines)

    def _lf_only(self, data: bytes) -> bytes:
        """The same lines, all ended by LF; the LF of a CRLF cut in two is dropped."""
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data

    def _complete_blocks(self, data: bytes) -> list[bytes]:
        """The blocks between blank lines, each byte looked at once however small the feeds."""
        unfinished = self._unfinished
        searched = max(len(unfinished) - 1, 0)
        unfinished += data
        end = unfinished.rfind(b"\n\n", searched)
        blocks: list[bytes] = []
        if end >= 0:
            blocks = bytes(unfinished[:end]).split(b"\n\n")
            del unfinished[: end + 2]
            if self._at_start:
                blocks[0] = blocks[0].removeprefix(_BOM)
                self._at_start = False
        if max([len(unfinished), *(len(block) + 2 for block in blocks)]) > self._max_event_bytes:
            message = f"an event is longer than {self._max_event_bytes} bytes"
            raise SseError(message)
        return blocks


def _payload(block: bytes) -> bytes | None:
    """The data of one event: its data lines joined by LF. None: no data, nothing to dispatch."""
    values = []
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"data":
            values.append(value.removeprefix(b" "))
    return b"\n".join(values) if values else None


def whole_events(reads: Sequence[tuple[int, bytes]]) -> list[tuple[int, bytes]] | None:
    """What an `SseParser` makes of reads that all hold whole events of one line, as most do.

    Each event with the stamp of its read; null for any other stream. A few searches of the
    stream as a whole settle it for every event, which costs a fifth of a parser.
    """
    whole = b"".join([data for _, data in reads])
    events = whole.count(b"\n\n")
    usual = (
        whole.startswith(b"data: ")
        and len(whole) <= MAX_EVENT_BYTES
        and whole.count(b"\n\ndata: ") == events - 1
        and whole.count(b"\n") == 2 * events
        and b"\r" not in whole
        and all(data.endswith(b"\n\n") for _, data in reads)
    )
    if not usual:
        return None
    return [(at_ns, data) for at_ns, read in reads for data in read[6:-2].split(b"\n\ndata: ")]


class Progress:
    """Whether anything but comments and empty data comes, without cutting the stream into events.

    A few searches settle it, since it is asked of all connections again and again. `events` counts
    the lines of data, which an event has one of.
    """

    def __init__(self) -> None:
        self.events = 0
        self._line = b"\n"  # how the unfinished line begins, if it may yet be one of data

    def made_by(self, data: bytes) -> bool:
        """Whether a line of data that holds something has begun in the next bytes."""
        new = self._line + data
        self.events += new.count(b"\ndata:") - self._line.count(b"\ndata:")
        made = b"data:" in new and _DATA.search(new) is not None  # the first is the faster
        begin = max(new.rfind(b"\n"), new.rfind(b"\r"))
        line = new[begin : begin + _TELLING] if begin >= 0 else b""
        self._line = b"" if len(line) == _TELLING or _DATA.match(line) else line
        return made
