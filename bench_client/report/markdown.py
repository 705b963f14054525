"""Figures as `report.md`: GitHub tables, and all that it takes to repeat the run."""

import re
from collections.abc import Iterable, Iterator

from bench_client.report import comparison_tables, details, resources, sentences, tables
from bench_client.report.arms import Arm, Report
from bench_client.report.outcome import outcome
from bench_client.report.sentences import Line
from bench_client.report.tables import Column, Table
from bench_client.report.text import plain


def report(found: Report) -> str:
    """The whole file: failures, the comparison where there is one, every arm, the method."""
    return "\n\n".join(block for block in _blocks(found) if block) + "\n"


def _blocks(found: Report) -> Iterator[str]:
    yield f"# bench-client: {_cell(found.title())}"
    for arm in found.arms:
        failed = sentences.failures(arm.summary)
        if failed:
            yield f"**{_cell(arm.name)}: {_cell(failed)}**"
    if found.comparisons:
        yield from _comparison(found)
    for arm in found.arms:
        yield from _arm(arm)
    if not found.comparisons:
        yield from _resources(found)
    yield f"Every figure is defined in [docs/method.md]({details.METHOD})."


def _comparison(found: Report) -> Iterator[str]:
    yield f"## Comparison with {_cell(found.arms[0].name)}"
    yield _table(comparison_tables.comparison(found))
    yield comparison_tables.COST_NOTE
    yield from _resources(found)
    for arm, against in found.pairs():
        yield f"### {_cell(arm.name)} against {_cell(found.arms[0].name)}"
        yield _lines(outcome(found.arms[0], against))
        if not against.refused:
            yield _table(comparison_tables.ratios(against))


def _resources(found: Report) -> Iterator[str]:
    for title, table in resources.side_by_side(found):
        yield f"### {title}"
        yield _table(table)


def _arm(arm: Arm) -> Iterator[str]:
    header, summary = arm.run.header, arm.summary
    yield f"## {_cell(arm.name)}: {summary.verdict}"
    for doubt in summary.doubts:
        yield f"> **{doubt.severity}**: {_cell(doubt.message)} (`{doubt.code}`)"
    yield _lines(sentences.what_ran(arm))
    yield _table(tables.totals(arm))
    yield _lines((*sentences.notes(arm), *resources.lines(arm)))
    yield _table(tables.along_answer(arm))
    yield _cell(sentences.along_answer_note(summary))
    requests = tables.prompts(arm, tables.FILE_ROWS)
    yield _table(requests)
    yield tables.hidden_note(requests)
    yield f"### What was run ({_cell(arm.name)})"
    yield from (_fenced(command) for _, command in details.commands(header))
    yield _lines((*details.circumstances(header), *details.flat(summary.telemetry)))


def _lines(lines: Iterable[Line]) -> str:
    return "\n".join(
        f"- {f'{_cell(label)}: ' if label else ''}{_cell(text)}" for label, text in lines
    )


def _table(table: Table) -> str:
    if not table.rows:
        return ""
    heads = [_head(column) for column in table.columns]
    rules = ["--:" if column.right else ":--" for column in table.columns]
    rows = ([_cell(cell) for cell in row] for row in table.rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rules, *rows))


def _head(column: Column) -> str:
    title = _cell(column.title)
    return f"{title} ({column.unit})" if column.unit else title


def _cell(text: str) -> str:
    """One line that Markdown renders as it is written: no cell breaks, tags, emphasis or links."""
    escaped = re.sub(r"([\\|*`~#]|\](?=\())", r"\\\1", plain(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;")


def _fenced(text: str) -> str:
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text)), 3)
    return f"{fence}sh\n{text}\n{fence}"
