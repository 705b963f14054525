"""What the server really sent, and when: the truth that a client's figures are judged by."""

from array import array
from pathlib import Path

from msgspec import json

from .sequence import Sequence


class Entry:
    """One request: its arrival, and each token event's send instant (CLOCK_REALTIME, ns).

    An instant is taken just before the send call. Where the socket was full the bytes left later:
    that delay is the reader's.
    """

    __slots__ = ("closed", "id", "received_ns", "sent_ns", "sequence", "tokens")

    def __init__(self, id_: str, received_ns: int, sequence: Sequence) -> None:
        self.id = id_
        self.received_ns = received_ns
        self.sequence = sequence
        self.sent_ns = array("q")
        self.tokens = array("l")
        self.closed = False

    def line(self) -> bytes:
        """The entry as one JSON line. `finish_reason` is null unless the whole answer was sent."""
        sequence = self.sequence
        complete = self.closed and sum(self.tokens) == sequence.length
        fields = {
            "id": self.id,
            "received_ns": self.received_ns,
            "input_tokens": len(sequence.prompt.tokens),
            "output_tokens": sum(self.tokens),
            "finish_reason": sequence.finish_reason if complete else None,
            "accept_histogram": sequence.histogram or None,
            "events": list(zip(self.sent_ns, self.tokens, strict=True)),
        }
        return json.encode(fields) + b"\n"


class SendLog:
    """All entries since the last `clear`; each also goes to `path`, if given, when it ends."""

    def __init__(self, path: Path | None = None) -> None:
        self._entries: list[Entry] = []
        self._file = path.open("wb", buffering=0) if path else None

    def open(self, id_: str, received_ns: int, sequence: Sequence) -> Entry:
        """Begin a request's entry."""
        entry = Entry(id_, received_ns, sequence)
        self._entries.append(entry)
        return entry

    def close(self, entry: Entry) -> None:
        """The request has ended, whichever way."""
        entry.closed = True
        if self._file:
            self._file.write(entry.line())

    def lines(self) -> bytes:
        """Every entry, those still under way as far as they are."""
        return b"".join(entry.line() for entry in self._entries)

    def clear(self) -> None:
        """Forget the entries; the file keeps them."""
        self._entries.clear()

    def shut(self) -> None:
        """Write the entries that have not ended, and close the file."""
        for entry in self._entries:
            if not entry.closed:
                self.close(entry)
        if self._file:
            self._file.close()
