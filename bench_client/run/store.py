"""The only writer of results, and their reader."""

import os
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from bench_client.measure.figures import Summary
from bench_client.records import FORMAT, RequestRecord, Run, RunHeader


class StoreError(Exception):
    """Results cannot be written or read; the message is one line that says what to do."""


class RunFolder:
    """`results/<UTC time>-<scenario>-<arm>/`, open for writing.

    Each record is one write of one line to a file opened for append, so that whatever ends the
    client loses at most the requests in flight.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._requests = os.open(
            path / "requests.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
        )

    @classmethod
    def create(cls, results: Path, scenario: str, arm: str) -> Self:
        """A new folder, never one that is there."""
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        name = f"{stamp}-{_slug(scenario)}-{_slug(arm)}"
        try:
            results.mkdir(parents=True, exist_ok=True)
            path = _fresh(results, name)
            return cls(path)
        except OSError as error:
            raise StoreError(_cannot("write results to", results, error)) from error

    def append(self, record: RequestRecord) -> None:
        """One more line of `requests.jsonl`."""
        line = msgspec.json.encode(record) + b"\n"
        try:
            written = os.write(self._requests, line)
            if written < len(line):  # the disk filled up inside the line: the rest says why
                os.write(self._requests, line[written:])
        except OSError as error:
            raise StoreError(_cannot("write to", self.path, error)) from error

    def write_header(self, header: RunHeader) -> None:
        """`run.json`, replaced as a whole."""
        self.write_text("run.json", _pretty(header))

    def write_summary(self, summary: Summary) -> None:
        """`summary.json`."""
        self.write_text("summary.json", _pretty(summary))

    def write_text(self, name: str, text: str) -> None:
        """Any other file of the folder, replaced as a whole."""
        target = self.path / name
        try:
            replace_text(target, text)
        except OSError as error:
            raise StoreError(_cannot("write", target, error)) from error

    def close(self) -> None:
        """No more records."""
        os.close(self._requests)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def replace_text(target: Path, text: str) -> None:
    """Write beside and rename, so that a reader never sees half a file."""
    beside = target.with_name(f".{target.name}.tmp")
    try:
        beside.write_text(text, encoding="utf-8")
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    beside.replace(target)


def load_run(path: Path) -> Run:
    """Read a results folder back, also one whose client was killed.

    Raises:
        StoreError: not a results folder, or one of a newer format.
    """
    try:
        header = msgspec.json.decode((path / "run.json").read_bytes(), type=RunHeader)
        lines = (path / "requests.jsonl").read_bytes() if _has(path, "requests.jsonl") else b""
        telemetry = _telemetry(path)
        log = _log(path, header)
    except FileNotFoundError as error:
        raise StoreError(f"{path} is not a results folder: it has no run.json") from error
    except OSError as error:
        raise StoreError(_cannot("read", path, error)) from error
    except msgspec.DecodeError as error:
        raise StoreError(f"{path}/run.json cannot be read: {error}") from error
    if header.format > FORMAT:
        raise StoreError(f"{path} has format {header.format}; this bench-client reads {FORMAT}")
    return Run(
        header=header,
        records=tuple(_records(path, lines)),
        telemetry=telemetry,
        log_text=log,
        path=str(path),
    )


def _records(path: Path, lines: bytes) -> list[RequestRecord]:
    whole, _, cut = lines.rpartition(b"\n")
    decoder = msgspec.json.Decoder(RequestRecord)
    try:
        records = [decoder.decode(line) for line in whole.split(b"\n") if line]
    except msgspec.DecodeError as error:
        raise StoreError(f"{path}/requests.jsonl cannot be read: {error}") from error
    try:
        # A client killed inside a write leaves half a line; one killed before the newline, a whole.
        return [*records, decoder.decode(cut)] if cut else records
    except msgspec.DecodeError:
        return records


def _telemetry(path: Path) -> tuple[dict[str, object], ...]:
    if not _has(path, "telemetry.jsonl"):
        return ()
    whole, _, _ = (path / "telemetry.jsonl").read_bytes().rpartition(b"\n")
    return tuple(msgspec.json.decode(line) for line in whole.split(b"\n") if line)


def _log(path: Path, header: RunHeader) -> str | None:
    server = header.server
    if server.log is None or not _has(path, server.log):
        return None
    whole = (server.log, 0, None)
    parts = [
        (path / name).read_bytes()[begin:end]
        for name, begin, end in server.log_windows or (whole,)
        if _has(path, name)
    ]
    return b"\n".join(parts).decode("utf-8", errors="replace")


def _has(path: Path, name: str) -> bool:
    return (path / name).is_file()


def _fresh(results: Path, name: str) -> Path:
    for number in range(1, 1000):
        path = results / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise FileExistsError(0, f"a thousand folders named {name}", str(results))


def _slug(text: str) -> str:
    return "".join(char if char.isalnum() or char in "-_." else "-" for char in text)


def _pretty(value: RunHeader | Summary) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def _cannot(verb: str, path: Path, error: OSError) -> str:
    return f"cannot {verb} {path}: {error.strerror or error}; give another folder by --results"
