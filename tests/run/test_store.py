import errno
import os
from pathlib import Path

import msgspec
import pytest

from bench_client.records import Failure
from bench_client.run.store import RunFolder, StoreError, load_run
from tests.factories import header, record


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, "a scenario", "sim") as folder:
        folder.write_header(header())
        folder.append(record(id="one"))
        folder.append(record(id="two"))
    run = load_run(folder.path)
    assert folder.path.name.endswith("-a-scenario-sim")
    assert [found.id for found in run.records] == ["one", "two"]
    assert run.records[0] == record(id="one")
    assert run.header == header()


def test_two_runs_in_one_second_get_two_folders(tmp_path: Path) -> None:
    paths = set()
    for _ in range(3):
        with RunFolder.create(tmp_path, "s", "a") as folder:
            paths.add(folder.path)
    assert len(paths) == 3


def test_a_client_killed_inside_a_write_loses_that_line_only(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, "s", "a") as folder:
        folder.write_header(header())
        folder.append(record(id="one"))
        folder.append(record(id="two"))
    lines = folder.path / "requests.jsonl"
    whole = lines.read_bytes()
    first = whole.index(b"\n") + 1
    for cut in range(first, len(whole) + 1):
        lines.write_bytes(whole[:cut])
        found = [kept.id for kept in load_run(folder.path).records]
        assert found == (["one", "two"] if cut >= len(whole) - 1 else ["one"])


def test_a_line_broken_in_the_middle_is_an_error(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, "s", "a") as folder:
        folder.write_header(header())
    line = msgspec.json.encode(record())
    (folder.path / "requests.jsonl").write_bytes(b"{broken\n" + line + b"\n")
    with pytest.raises(StoreError, match=r"requests\.jsonl"):
        load_run(folder.path)


def test_damaged_telemetry_costs_its_lines_only(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, "s", "a") as folder:
        folder.write_header(header(note="as it was"))
        folder.append(record())
    rows = b'{"at_unix_ns":1,"x":2}\n{"at_uni\n\0\0\n5\n\xff\n{"at_unix_ns":3}\n{"at_unix'
    (folder.path / "telemetry.jsonl").write_bytes(rows)
    run = load_run(folder.path)
    assert run.telemetry == ({"at_unix_ns": 1, "x": 2}, {"at_unix_ns": 3})
    said = "left out of telemetry.jsonl: 4 damaged lines"
    assert run.header.note == f"as it was; {said}"
    assert run.records == (record(),)


def test_no_message_quotes_a_secret(tmp_path: Path) -> None:
    told = Failure("http_401", "no such key: sesame")
    with RunFolder.create(tmp_path, "s", "a", ("sesame",)) as folder:
        folder.write_header(header(note="warm-up failed: sesame"))
        folder.append(record(outcome="failed", failure=told))
    run = load_run(folder.path)
    assert run.records[0].failure == Failure("http_401", "no such key: ***")
    assert run.header.note == "warm-up failed: ***"


def test_what_is_no_results_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not a results folder"):
        load_run(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(StoreError, match=r"run\.json"):
        load_run(tmp_path)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    newer = msgspec.structs.replace(header(), format=99)
    (tmp_path / "run.json").write_bytes(msgspec.json.encode(newer))
    with pytest.raises(StoreError, match="format 99"):
        load_run(tmp_path)


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="--results"):
        RunFolder.create(tmp_path / "file", "s", "a")


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunFolder.create(tmp_path, "s", "a") as folder:

        def full(fd: int, data: bytes) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(StoreError, match="No space left"):
            folder.append(record())
