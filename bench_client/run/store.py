"""The only writer of results, and their reader."""

import os
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from msgspec import Struct

from bench_client.measure.figures import Summary
from bench_client.records import FORMAT, RequestRecord, Run, RunHeader
from bench_client.run.secrets import scrubbed, scrubbed_failure

# Two of them, of three bytes a letter, still make a file name.
_SLUG_LETTERS = 36


class StoreError(Exception):
    """Results cannot be written or read; the message is one line that says what to do."""


class FolderError(StoreError):
    """A folder that was named is none to read results from, or to write them to."""


class _Format(Struct):
    """What of `run.json` tells whether the rest can be understood."""

    format: int = FORMAT


class _Sample(Struct):
    """What every line of `telemetry.jsonl` has."""

    at_unix_ns: int


class RunFolder:
    """`results/<UTC time>-<scenario>-<arm>/`, open for writing.

    Each record is one write of one line to a file opened for append, so that whatever ends the
    client loses at most the requests in flight. No message that is kept quotes `secrets`.
    """

    def __init__(self, path: Path, secrets: tuple[str, ...] = ()) -> None:
        self.path = path
        self._secrets = secrets
        self._requests = os.open(
            path / "requests.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
        )

    @classmethod
    def create(cls, results: Path, scenario: str, arm: str, secrets: tuple[str, ...] = ()) -> Self:
        """A new folder, never one that is there."""
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        name = f"{stamp}-{_slug(scenario)}-{_slug(arm)}"
        try:
            results.mkdir(parents=True, exist_ok=True)
            path = _fresh(results, name)
            return cls(path, secrets)
        except OSError as error:
            raise FolderError(_cannot("write results to", results, error)) from error

    def append(self, record: RequestRecord) -> None:
        """One more line of `requests.jsonl`."""
        if record.failure:
            failure = scrubbed_failure(record.failure, self._secrets)
            record = msgspec.structs.replace(record, failure=failure)
        line = msgspec.json.encode(record) + b"\n"
        try:
            written = os.write(self._requests, line)
            if written < len(line):  # the disk filled up inside the line: the rest says why
                os.write(self._requests, line[written:])
        except OSError as error:
            raise StoreError(_cannot("write to", self.path, error)) from error

    def write_header(self, header: RunHeader) -> None:
        """`run.json`, replaced as a whole."""
        if header.note:
            note = scrubbed(header.note, self._secrets)
            header = msgspec.structs.replace(header, note=note)
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

    def discard(self) -> None:
        """There is nothing to keep."""
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def check_results(results: Path) -> None:
    """Make a folder there, as a run would, and take it away again. FolderError as for a run."""
    made = [each for each in (results, *results.parents) if not os.path.lexists(each)]
    try:
        RunFolder.create(results, "check", "check").discard()
    finally:
        for each in made:
            with suppress(OSError):
                each.rmdir()


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

    Telemetry that is damaged is left out, and the header's note says so.

    Raises:
        FolderError: not a results folder, or one of a newer format.
    """
    try:
        header = _header(path)
        lines = (path / "requests.jsonl").read_bytes() if _has(path, "requests.jsonl") else b""
        telemetry, damaged = _telemetry(path)
        log = _log(path, header)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FolderError(f"{path} is not a results folder: it has no run.json") from error
    except OSError as error:
        raise FolderError(f"cannot read {path}: {error.strerror or error}") from error
    return Run(
        header=_noted(header, damaged),
        records=tuple(_records(path, lines)),
        telemetry=telemetry,
        log_text=log,
        path=str(path),
    )


def _header(path: Path) -> RunHeader:
    whole = (path / "run.json").read_bytes()
    try:
        found = msgspec.json.decode(whole, type=_Format).format
        if found > FORMAT:
            raise FolderError(f"{path} has format {found}; this bench-client reads {FORMAT}")
        return msgspec.json.decode(whole, type=RunHeader)
    except msgspec.DecodeError as error:
        raise FolderError(f"{path}/run.json cannot be read: {error}") from error


def _noted(header: RunHeader, damaged: int) -> RunHeader:
    if not damaged:
        return header
    said = f"left out of telemetry.jsonl: {damaged} damaged lines"
    note = "; ".join(filter(None, (header.note, said)))
    return msgspec.structs.replace(header, note=note)


def _records(path: Path, lines: bytes) -> list[RequestRecord]:
    whole, _, cut = lines.rpartition(b"\n")
    decoder = msgspec.json.Decoder(RequestRecord)
    try:
        records = [decoder.decode(line) for line in whole.split(b"\n") if line]
    except msgspec.DecodeError as error:
        raise FolderError(f"{path}/requests.jsonl cannot be read: {error}") from error
    try:
        # A client killed inside a write leaves half a line; one killed before the newline, a whole.
        return [*records, decoder.decode(cut)] if cut else records
    except msgspec.DecodeError:
        return records


def _telemetry(path: Path) -> tuple[tuple[dict[str, Any], ...], int]:
    """The samples, and how many lines are none. What a killed sampler cut off does not count."""
    if not _has(path, "telemetry.jsonl"):
        return (), 0
    whole, _, _ = (path / "telemetry.jsonl").read_bytes().rpartition(b"\n")
    rows: list[dict[str, Any]] = []
    damaged = 0
    for line in filter(None, whole.split(b"\n")):
        try:
            msgspec.json.decode(line, type=_Sample)
            rows.append(msgspec.json.decode(line, type=dict[str, Any]))
        except (msgspec.DecodeError, RecursionError):
            damaged += 1
    return tuple(rows), damaged


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
    kept = "".join(char if char.isalnum() or char in "-_." else "-" for char in text)
    return kept[:_SLUG_LETTERS]


def _pretty(value: RunHeader | Summary) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def _cannot(verb: str, path: Path, error: OSError) -> str:
    return f"cannot {verb} {path}: {error.strerror or error}; give another folder by --results"
