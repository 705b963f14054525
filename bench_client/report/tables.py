"""The tables of an arm, as text cells that terminal, Markdown and HTML lay out in their ways."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bench_client.measure.figures import PromptRow, Stat
from bench_client.report.arms import Arm
from bench_client.report.text import (
    UNKNOWN,
    Decimals,
    column,
    count,
    interval,
    ms_decimals,
    no_decimals,
    number,
    ratio_with_interval,
    span,
    tps_decimals,
    two_decimals,
)


class Column(NamedTuple):
    """A column head: numbers stand right, words left."""

    title: str
    unit: str = ""
    right: bool = True


class Table(NamedTuple):
    """Rows of cells; a newline in a cell parts a figure from its interval.

    `bad` are the indices of rows to stand out, `hidden` counts the rows left out.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    bad: frozenset[int] = frozenset()
    hidden: int = 0


class Figure(NamedTuple):
    """A distribution of `Summary`, or a ratio's figure, as it is shown."""

    key: str
    title: str
    unit: str
    decimals: Decimals

    def stat(self, arm: Arm) -> Stat | None:
        """Its distribution in `arm`."""
        if self.key == "accept_length":
            speculation = arm.summary.speculation
            return speculation.accept_length_per_request if speculation else None
        found: Stat | None = getattr(arm.summary, self.key)
        return found


FIGURES = (
    Figure("ttft_ms", "TTFT", "ms", ms_decimals),
    Figure("ttft_from_schedule_ms", "TTFT from schedule", "ms", ms_decimals),
    Figure("itl_ms", "ITL", "ms", ms_decimals),
    Figure("chunk_gap_ms", "chunk gap", "ms", ms_decimals),
    Figure("tpot_ms", "TPOT", "ms", ms_decimals),
    Figure("e2e_ms", "E2E", "ms", ms_decimals),
    Figure("e2e_from_schedule_ms", "E2E from schedule", "ms", ms_decimals),
    Figure("queue_ms", "queue", "ms", ms_decimals),
    Figure("tps_e2e", "TPS e2e", "tok/s", tps_decimals),
    Figure("tps_decode", "TPS decode", "tok/s", tps_decimals),
    Figure("accept_length", "accept length", "", two_decimals),
    Figure("step_ms", "step", "ms", ms_decimals),
)
FILE_ROWS = 1000  # a report file of more rows opens slowly, and requests.jsonl has them all
TELLING_QUEUE = 0.01  # of the mean E2E
BRIEF_OMITS = ("chunk_gap_ms", "e2e_ms", "queue_ms")
_SHA256, _E2E, _STEPS = Column("sha256", right=False), Column("E2E", "ms"), Column("verify\nsteps")
_BRIEF_OMITS_COLUMNS = (_SHA256, _E2E, _STEPS)


def prompts(arm: Arm, limit: int | None = None, *, brief: bool = False) -> Table:
    """A row for each request; columns of which nothing is known are left out.

    Above `limit` rows the failed requests are kept first; `brief` fits the terminal.
    """
    everything = sorted(arm.summary.rows, key=lambda row: (row.prompt_index, row.repeat))
    shown = _most_telling(everything, limit)
    kinds = {r.id: r.failure.kind for r in arm.run.records if r.failure}
    ended = [_ending(row, kinds) for row in shown]
    repeats = [f"{row.repeat + 1}" for row in shown] if any(row.repeat for row in shown) else []
    words: list[tuple[Column, list[str]]] = [
        (Column("prompt", right=False), [row.prompt_id or row.id for row in shown]),
        (_SHA256, [(row.prompt_sha256 or UNKNOWN)[:8] for row in shown]),
        (Column("repeat"), repeats),
        (Column("lang", right=False), [row.language or UNKNOWN for row in shown]),
        (Column("in", "tok"), [count(row.input_tokens) for row in shown]),
        (Column("out", "tok"), [count(row.output_tokens) for row in shown]),
        (Column("finish", right=False), ended),
    ]
    columns = [
        (head, cells)
        for head, cells in words + _measured(shown)
        if _tells(cells) and not (brief and head in _BRIEF_OMITS_COLUMNS)
    ]
    return Table(
        columns=tuple(head for head, _ in columns),
        rows=tuple(zip(*(cells for _, cells in columns), strict=True)),
        bad=frozenset(i for i, row in enumerate(shown) if row.outcome != "ok"),
        hidden=len(everything) - len(shown),
    )


def hidden_note(table: Table) -> str:
    """Where the rows are that `table` leaves out; empty if it leaves out none."""
    return f"{count(table.hidden)} more requests are in requests.jsonl." if table.hidden else ""


def _measured(rows: Sequence[PromptRow]) -> list[tuple[Column, list[str]]]:
    spec: tuple[tuple[Column, Decimals, Iterable[float | None]], ...] = (
        (Column("TTFT", "ms"), ms_decimals, (row.ttft_ms for row in rows)),
        (_E2E, ms_decimals, (row.e2e_ms for row in rows)),
        (Column("TPS e2e", "tok/s"), tps_decimals, (row.tps_e2e for row in rows)),
        (Column("TPS decode", "tok/s"), tps_decimals, (row.tps_decode for row in rows)),
        (Column("accept\nlength"), two_decimals, (row.accept_length for row in rows)),
        (_STEPS, no_decimals, (row.verify_steps for row in rows)),
        (Column("step", "ms"), ms_decimals, (row.step_ms for row in rows)),
    )
    return [(head, column(values, decimals)) for head, decimals, values in spec]


def _tells(cells: Sequence[str]) -> bool:
    return any(cell != UNKNOWN for cell in cells)


def _ending(row: PromptRow, kinds: dict[str, str]) -> str:
    if row.outcome == "ok":
        return row.finish_reason or UNKNOWN
    return f"failed: {kinds[row.id]}" if row.id in kinds else "failed"


def _most_telling(rows: list[PromptRow], limit: int | None) -> list[PromptRow]:
    if limit is None or len(rows) <= limit:
        return rows
    kept = sorted(range(len(rows)), key=lambda i: (rows[i].outcome == "ok", i))[:limit]
    return [rows[i] for i in sorted(kept)]


def along_answer(arm: Arm) -> Table:
    """Accept length by part of the answer; no row where that is not known."""
    speculation = arm.summary.speculation
    parts = speculation.by_answer_position if speculation else ()
    heads = ("answers", "verify\nsteps", "accept\nlength", "of these\nanswers", "95% interval")
    return Table(
        columns=(Column("answer tokens", right=False), *map(Column, heads)),
        rows=tuple(
            (
                span(part.begin, part.end),
                count(part.answers),
                count(part.steps),
                number(part.accept_length, 2),
                *ratio_with_interval(part.relative, part.relative_ci95),
            )
            for part in parts
        ),
    )


def totals(arm: Arm, brief: bool = False) -> Table:
    """A row for each figure that was measured; percentiles unless `brief`."""
    heads = ["n", "mean", "± sd", "95% interval", "median", "min", "max"]
    heads += [] if brief else ["p90", "p95", "p99"]
    rows = []
    for figure in FIGURES:
        stat = figure.stat(arm)
        if stat is None or stat.mean is None or (brief and _omitted(figure.key, arm)):
            continue
        rows.append((figure.title, figure.unit, *_cells(stat, figure.decimals, brief)))
        pooled = arm.summary.tps_e2e.pooled
        if figure.key == "tps_e2e" and pooled is not None:
            mean, rest = number(pooled, tps_decimals(pooled)), [""] * (len(heads) - 2)
            rows.append((f"{figure.title}, pooled", figure.unit, "", mean, *rest))
    columns = (Column("", right=False), Column("", right=False), *map(Column, heads))
    return Table(columns=columns, rows=tuple(rows))


def _omitted(key: str, arm: Arm) -> bool:
    """What is left out of the terminal; waiting at the client only where there was hardly any.

    Another tool's run has few figures, so all of them are shown.
    """
    if arm.run.header.imported:
        return False
    queue, e2e = arm.summary.queue_ms.mean, arm.summary.e2e_ms.mean
    if key == "queue_ms" and queue is not None and e2e is not None:
        return queue <= TELLING_QUEUE * e2e
    return key in BRIEF_OMITS


def _cells(stat: Stat, decimals: Decimals, brief: bool) -> list[str]:
    places = decimals(stat.mean or 0)
    spread = UNKNOWN if stat.sd is None else f"± {number(stat.sd, places)}"
    middle = [number(value, places) for value in (stat.p50, stat.min, stat.max)]
    tail = [] if brief else [number(value, places) for value in (stat.p90, stat.p95, stat.p99)]
    mean, bounds = number(stat.mean, places), interval(stat.ci95, places)
    return [count(stat.n or None), mean, spread, bounds, *middle, *tail]
