"""Reports on figures that the measure room made of records, not by hand."""

import io

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console

from bench_client.measure.compare import compare
from bench_client.measure.summary import summarize
from bench_client.records import Accept, Events, RequestRecord, Run
from bench_client.report import html, markdown, terminal
from bench_client.report.arms import Report, make_report

from . import building

PROMPTS = 9


def stepped(index: int, began_ns: int, accept: int, step_ms: float) -> RequestRecord:
    """60 tokens after the first, `accept` a step; a step takes `step_ms`, and a bit by prompt."""
    record = building.record(building.row(index, 44.0, float(accept)), began_ns)
    first = began_ns + 500_000_000 + 10_000_000 * index
    gap, steps = round((step_ms + 0.1 * index) * 1e6), 60 // accept
    at = tuple(first + i * gap for i in range(steps + 1))
    return replace(
        record,
        first_token_ns=at[0],
        last_token_ns=at[-1],
        done_ns=at[-1] + 1000,
        output_tokens=61,
        events=Events(at, (1,) + (accept,) * steps),
        reads=len(at),
        accept=Accept(source="payload", verify_steps=steps, tokens=60) if accept > 1 else None,
    )


def run(name: str, accept: int, step_ms: float) -> Run:
    made: list[RequestRecord] = []
    for index in range(PROMPTS):
        began = made[-1].done_ns if made else 0
        assert began is not None
        made.append(stepped(index, began, accept, step_ms))
    header = building.header(building.server(name, "head" if accept > 1 else None))
    plan = replace(header.plan, chained=False)
    return Run(header=replace(header, plan=plan), records=tuple(made))


@pytest.fixture(scope="module")
def measured() -> Report:
    runs = [run("sglang", 1, 20.0), run("sglang-eagle3", 3, 40.0)]
    return make_report([(each, summarize(each)) for each in runs], [compare(*runs)])


def test_terminal(measured: Report) -> None:
    file = io.StringIO()
    Console(file=file, width=terminal.WIDTH, _environ={}).print(terminal.report(measured))
    shown = file.getvalue()
    assert max(map(cell_len, shown.splitlines())) <= terminal.WIDTH
    assert "per request 3.00 (headline, 180 verify steps)" in shown
    assert "faster than sglang" in shown
    assert f"paired by prompt, {PROMPTS} pairs" in shown
    # 3 tokens a step, 40.4 ms against 20.4 ms.
    assert "1.98 " in shown


def test_files(measured: Report) -> None:
    page, text = html.report(measured), markdown.report(measured)
    assert page.count("<svg") == 3
    fit = "accept length ÷ 40.4 ms a step explains 0.0% of the difference between prompts (sd 0.7%)"
    along = ("32-63", "answer tokens")
    for said in ("faster than sglang", "3.00", "TPS decode", "residual 0.6%", fit, *along):
        assert said in page
        assert said in text
