"""A file of another tool as runs, told by its content."""

import json
from typing import Any

from bench_client.imports import aiperf
from bench_client.imports.across import with_findings
from bench_client.imports.as_run import Source
from bench_client.imports.notes import import_text
from bench_client.imports.plain_text import decoded, plain
from bench_client.imports.results import of_shape, result_runs
from bench_client.records import Run

Entries = list[tuple[str, dict[str, Any]]]


def import_bytes(name: str, data: bytes) -> list[Run]:
    """The same of a file's bytes. ValueError, too, where they are no text."""
    try:
        text = decoded(data)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    return import_file(name, text)


def import_file(name: str, text: str) -> list[Run]:
    """Every run that a file holds; `name` is for messages and for the runs' `file`.

    JSON and JSONL are told by their keys; any other text is searched as a note. ValueError, in one
    line that names the file, where nothing is found or a part cannot be read.
    """
    text = plain(text)
    entries = _entries(name, text)
    if entries is None:
        return import_text(text, name)
    source, objects = Source(file=name), [entry for _, entry in entries]
    if all(_is_docker_line(entry) for entry in objects):
        return import_text("".join(entry["log"] for entry in objects), name)
    if all(aiperf.is_record(entry) for entry in objects):
        return [*of_shape(aiperf.TOOL, name, lambda: [aiperf.records_run(objects, source)])]
    found = [result_runs(entry, source, where) for where, entry in entries]
    return with_findings([run for runs in found for run in runs])


def _is_docker_line(entry: dict[str, Any]) -> bool:
    """A line of Docker's json-file log: a line of the container's output in an object."""
    return isinstance(entry.get("log"), str) and "stream" in entry


def _entries(name: str, text: str) -> Entries | None:
    """The objects of a JSON or JSONL file, each with its place; None for other text.

    A log line may begin with a bracket too, and a note with a result.
    """
    start = text.lstrip()[:1]
    if not start or start not in "{[":
        return None
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return _lines(name, text) if start == "{" and not _spread(text) else None
    if isinstance(whole, dict):
        return [(name, whole)]
    if not whole or not all(isinstance(entry, dict) for entry in whole):
        raise ValueError(f"{name}: every entry of a JSON array must be an object, a result")
    return [(f"{name}: entry {at}", entry) for at, entry in enumerate(whole, 1)]


def _spread(text: str) -> bool:
    """Whether it begins with an object over several lines."""
    text = text.lstrip()
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return "\n" in text[:end]


def _lines(name: str, text: str) -> Entries | None:
    """One JSON object a line; a last line cut short, as a kill leaves it, is left out. None where
    a line has a brace at neither end: a note, then.
    """
    lines = [(at, line) for at, line in enumerate(text.split("\n"), 1) if line.strip()]
    if any(line.strip()[0] != "{" and line.strip()[-1] != "}" for _, line in lines):
        return None
    found: Entries = []
    for at, line in lines:
        try:
            found.append((f"{name}: line {at}", json.loads(line)))
        except (ValueError, RecursionError) as error:
            if found and at == lines[-1][0]:
                break
            said = error.msg if isinstance(error, json.JSONDecodeError) else error
            raise ValueError(f"{name}: line {at} is not JSON: {said}") from error
    return found
