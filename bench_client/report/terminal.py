"""Figures as rich renderables: aligned, and legible without colour.

Made for consoles of `WIDTH` columns and more. Where the output is no terminal, rich assumes 80:
give such a console this width.
"""

from collections.abc import Iterable, Iterator

from rich import box
from rich.console import Group, JustifyMethod, RenderableType
from rich.rule import Rule
from rich.table import Table as RichTable
from rich.text import Text

from bench_client.report import comparison_tables, resources, sentences, tables
from bench_client.report.arms import Arm, Report
from bench_client.report.outcome import outcome
from bench_client.report.sentences import Line
from bench_client.report.tables import Column, Table
from bench_client.report.text import plain

WIDTH = 100
MAX_ROWS = 40
VERDICT_STYLES = {"valid": "green", "doubtful": "yellow", "invalid": "bold red"}
SEVERITY_STYLES = {"note": "", "doubtful": "yellow", "invalid": "red"}
_LABEL_WIDTH = 14


def report(found: Report) -> RenderableType:
    """Every arm, then the comparison where there is one."""
    parts = [arm(each) for each in found.arms]
    return Group(*parts, comparison(found)) if found.comparisons else Group(*parts)


def arm(found: Arm) -> RenderableType:
    """One arm: failures first, what ran, a row for each request, totals, doubts."""
    return Group(*_parted(_arm_blocks(found)))


def _arm_blocks(found: Arm) -> Iterator[RenderableType]:
    summary = found.summary
    yield Group(_title(found), Rule(style="dim"), _lines(sentences.what_ran(found)))
    if summary.rows:
        shown = tables.prompts(found, MAX_ROWS, brief=True)
        yield _table(shown)
        if shown.hidden:
            yield _text(tables.hidden_note(shown), "dim")
    totals = tables.totals(found, brief=True)
    if totals.rows:
        yield _table(totals)
    yield _lines((*sentences.notes(found), *resources.lines(found)))
    if summary.doubts:
        yield _doubts(found)


def _title(found: Arm) -> RenderableType:
    verdict = found.summary.verdict
    grid = RichTable.grid(expand=True, padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1, overflow="fold")
    grid.add_column(justify="right", no_wrap=True)
    failed = _text(sentences.failures(found.summary) or "", "bold red")
    grid.add_row(_text(found.name, "bold"), failed, _text(verdict, VERDICT_STYLES[verdict]))
    return grid


def _doubts(found: Arm) -> RenderableType:
    grid = _label_grid()
    for doubt in found.summary.doubts:
        grid.add_row(
            _text(doubt.severity, SEVERITY_STYLES[doubt.severity]),
            _text(f"{doubt.message} ({doubt.code})"),
        )
    return grid


def comparison(found: Report) -> RenderableType:
    """The arms side by side, then what each is against the baseline, and why."""
    return Group(*_parted(_comparison_blocks(found)))


def _comparison_blocks(found: Report) -> Iterator[RenderableType]:
    title = _text(f"comparison with {found.arms[0].name}", "bold")
    yield Group(title, Rule(style="dim"), *_standings(found.arms))
    yield _table(comparison_tables.comparison(found))
    yield _text(comparison_tables.COST_NOTE, "dim")
    for head, table in resources.side_by_side(found):
        yield Group(_text(head, "bold"), _table(table))
    for each, against in found.pairs():
        lines = _lines(outcome(found.arms[0], against))
        yield Group(_text(each.name, "bold"), lines)


def _standings(arms: Iterable[Arm]) -> Iterator[RenderableType]:
    for each in arms:
        said = sentences.standing(each)
        if said:
            yield _text(f"{each.name} is {said}", VERDICT_STYLES[each.summary.verdict])


def _lines(lines: Iterable[Line]) -> RenderableType:
    grid = _label_grid()
    for label, text in sentences.named_once(lines):
        grid.add_row(_text(label, "dim"), _text(text))
    return grid


def _label_grid() -> RichTable:
    grid = RichTable.grid(padding=(0, 2, 0, 0))
    # rich trims a line's last blank by characters, not by cells: of a line with wide ones it stays,
    # and an ellipsis for it would cost a letter.
    grid.add_column(min_width=_LABEL_WIDTH, overflow="fold")
    grid.add_column(overflow="fold")
    return grid


def _table(found: Table) -> RenderableType:
    table = RichTable(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="dim",
    )
    for column in found.columns:
        justify: JustifyMethod = "right" if column.right else "left"
        # Words may fold where room is short, figures never.
        table.add_column(
            _text(_head(column)), justify=justify, no_wrap=column.right, overflow="fold"
        )
    for index, cells in enumerate(found.rows):
        table.add_row(*map(_text, cells), style="red" if index in found.bad else None)
    return table


def _head(column: Column) -> str:
    return f"{column.title}\n{column.unit}" if column.unit else column.title


def _parted(blocks: Iterable[RenderableType]) -> Iterator[RenderableType]:
    for block in blocks:
        yield block
        yield Text()


def _text(text: str, style: str = "") -> Text:
    return Text("\n".join(map(plain, text.split("\n"))), style=style)
