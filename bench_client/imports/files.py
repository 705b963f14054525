"""A file of another tool as runs, told by its content."""

import json
from typing import Any

from bench_client.imports import aiperf
from bench_client.imports.across import with_findings
from bench_client.imports.as_run import Source
from bench_client.imports.notes import import_text
from bench_client.imports.plain_text import plain
from bench_client.imports.results import of_shape, result_runs
from bench_client.records import Run

Entries = list[tuple[str, dict[str, Any]]]


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
    if all(aiperf.is_record(entry) for entry in objects):
        return [*of_shape(aiperf.TOOL, name, lambda: [aiperf.records_run(objects, source)])]
    found = [result_runs(entry, source, where) for where, entry in entries]
    return with_findings([run for runs in found for run in runs])


def _entries(name: str, text: str) -> Entries | None:
    """The objects of a JSON or JSONL file, each with its place; None for other text.

    A log line may begin with a bracket too.
    """
    start = text.lstrip()[:1]
    if not start or start not in "{[":
        return None
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return _lines(name, text) if start == "{" else None
    if isinstance(whole, dict):
        return [(name, whole)]
    if not whole or not all(isinstance(entry, dict) for entry in whole):
        raise ValueError(f"{name}: every entry of a JSON array must be an object, a result")
    return [(f"{name}: entry {at}", entry) for at, entry in enumerate(whole, 1)]


def _lines(name: str, text: str) -> Entries:
    """One JSON object a line; a last line cut short, as a kill leaves it, is left out."""
    lines = [(at, line) for at, line in enumerate(text.split("\n"), 1) if line.strip()]
    found: Entries = []
    for at, line in lines:
        where = f"{name}: line {at}"
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            if found and at == lines[-1][0]:
                break
            said = error.msg if isinstance(error, json.JSONDecodeError) else error
            raise ValueError(f"{where} is not JSON: {said}") from error
        if not isinstance(entry, dict):
            raise ValueError(  # noqa: TRY004 (of the file, not of an argument)
                f"{where} is no object, as every line of a JSONL file must be"
            )
        found.append((where, entry))
    return found
