"""Figures as one self-contained `report.html`: no script, no asset, light and dark."""

from collections.abc import Iterable, Iterator
from html import escape

from bench_client.report import comparison_tables, details, resources, sentences, tables
from bench_client.report.arms import Arm, Report
from bench_client.report.outcome import outcome
from bench_client.report.page import page
from bench_client.report.panels import panels
from bench_client.report.sentences import Line
from bench_client.report.tables import Column, Table
from bench_client.report.text import plain


def report(found: Report) -> str:
    """The whole page: failures, the comparison where there is one, charts, every arm."""
    title = f"bench-client: {found.title()}"
    return page(_safe(title), "\n".join(_blocks(found, title)))


def _blocks(found: Report, title: str) -> Iterator[str]:
    yield f"<h1>{_safe(title)}</h1>"
    for arm in found.arms:
        failed = sentences.failures(arm.summary)
        if failed:
            yield f'<p class="invalid">{_safe(arm.name)}: {_safe(failed)}</p>'
    if found.comparisons:
        yield from _comparison(found)
        yield from _charts(found)
    for arm in found.arms:
        yield from _arm(arm)
    if not found.comparisons:
        yield from _resources(found)
        yield from _charts(found)
    yield f"<footer>Every figure is defined in docs/method.md of {_version(found)}.</footer>"


def _charts(found: Report) -> Iterator[str]:
    for head, svg in panels(found):
        yield f"<figure><figcaption>{_safe(head)}</figcaption>{svg}</figure>"


def _version(found: Report) -> str:
    return _safe(f"bench-client {found.arms[0].run.header.bench_client_version}")


def _comparison(found: Report) -> Iterator[str]:
    baseline = found.arms[0]
    yield f"<h2>Comparison with {_safe(baseline.name)}</h2>"
    yield _table(comparison_tables.comparison(found))
    yield f'<p class="dim">{_safe(comparison_tables.COST_NOTE)}</p>'
    yield from _resources(found)
    for arm, against in found.pairs():
        yield f"<h3>{_safe(arm.name)} against {_safe(baseline.name)}</h3>"
        yield _lines(outcome(baseline, against))
        if not against.refused:
            yield _table(comparison_tables.ratios(against))


def _resources(found: Report) -> Iterator[str]:
    for title, table in resources.side_by_side(found):
        yield f"<h3>{_safe(title)}</h3>"
        yield _table(table)


def _arm(arm: Arm) -> Iterator[str]:
    header, summary = arm.run.header, arm.summary
    verdict = f'<span class="verdict {summary.verdict}">{summary.verdict}</span>'
    yield f"<h2>{_safe(arm.name)} {verdict}</h2>"
    yield from (
        f'<p><span class="verdict {doubt.severity}">{doubt.severity}</span> '
        f"{_safe(doubt.message)} <code>{_safe(doubt.code)}</code></p>"
        for doubt in summary.doubts
    )
    yield _lines(sentences.what_ran(arm))
    yield _table(tables.totals(arm))
    yield _lines((*sentences.notes(arm), *resources.lines(arm)))
    yield _table(tables.along_answer(arm))
    if note := sentences.along_answer_note(summary):
        yield f'<p class="dim">{_safe(note)}</p>'
    requests = tables.prompts(arm, tables.FILE_ROWS)
    yield _table(requests)
    if requests.hidden:
        yield f'<p class="dim">{tables.hidden_note(requests)}</p>'
    yield f"<details><summary>What was run ({_safe(arm.name)})</summary>"
    yield from (f"<pre>{_safe(command)}</pre>" for _, command in details.commands(header))
    yield _lines((*details.circumstances(header), *details.flat(summary.telemetry)))
    yield "</details>"


def _lines(lines: Iterable[Line]) -> str:
    named = sentences.named_once(lines)
    pairs = (f"<dt>{_safe(label)}</dt><dd>{_safe(text)}</dd>" for label, text in named)
    return f"<dl>{''.join(pairs)}</dl>"


def _table(table: Table) -> str:
    if not table.rows:
        return ""
    heads = "".join(f"<th{_side(column)}>{_head(column)}</th>" for column in table.columns)
    rows = "\n".join(_row(table, i) for i in range(len(table.rows)))
    return (
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>\n{rows}\n</tbody></table></div>"
    )


def _row(table: Table, index: int) -> str:
    cells = zip(table.columns, table.rows[index], strict=True)
    inner = "".join(f"<td{_side(column)}>{_cell(cell)}</td>" for column, cell in cells)
    return f'<tr class="bad">{inner}</tr>' if index in table.bad else f"<tr>{inner}</tr>"


def _side(column: Column) -> str:
    return "" if column.right else ' class="words"'


def _head(column: Column) -> str:
    unit = f"<br><small>{_safe(column.unit)}</small>" if column.unit else ""
    return f"{_cell(column.title)}{unit}"


def _cell(text: str) -> str:
    return "<br>".join(map(_safe, text.split("\n")))


def _safe(text: str) -> str:
    return escape(plain(text))
