"""A file of another tool as runs, told by its content."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bench_client.imports import aiperf, guidellm, sglang_bench, vllm_bench
from bench_client.imports.across import with_findings
from bench_client.imports.as_run import Source
from bench_client.imports.notes import READS, import_text
from bench_client.records import Run


def import_file(name: str, text: str) -> list[Run]:
    """Every run that a file holds; `name` is for messages and for the runs' `file`.

    JSON and JSONL are told by their keys; any other text is searched as a note. ValueError, in one
    line, where nothing is found or JSON is broken.
    """
    if not text.lstrip("\ufeff \t\r\n").startswith("{"):
        return import_text(text, name)
    entries = _objects(name, text.lstrip("\ufeff"))
    source = Source(file=name)
    if all(aiperf.is_record(entry) for entry in entries):
        return [aiperf.records_run(entries, source)]
    return with_findings([run for entry in entries for run in _runs(entry, source)])


def _runs(entry: Mapping[str, Any], source: Source) -> Sequence[Run]:
    if sglang_bench.is_json(entry):
        return [sglang_bench.json_run(entry, source)]
    if vllm_bench.is_json(entry):
        return [vllm_bench.json_run(entry, source)]
    if guidellm.is_report(entry):
        return guidellm.report_runs(entry, source)
    if aiperf.is_summary(entry):
        return [aiperf.summary_run(entry, source)]
    raise ValueError(f"{source.file}: JSON that no known tool writes; this reads {READS}")


def _objects(name: str, text: str) -> list[dict[str, Any]]:
    """One JSON object, or one a line; a last line cut short, as a kill leaves it, is left out."""
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        lines = [(at, line) for at, line in enumerate(text.splitlines(), 1) if line.strip()]
    found: list[dict[str, Any]] = []
    for at, line in lines:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError as error:
            if found and at == lines[-1][0]:
                break
            raise ValueError(f"{name}: line {at} is not JSON: {error.msg}") from error
    if not all(isinstance(entry, dict) for entry in found):
        raise ValueError(f"{name}: every line of a JSONL file must be an object")
    return found
