"""Reports from a results folder: the same fold right after the run and years later."""

from pathlib import Path

from bench_client.imports.engine_logs import log_accept_length
from bench_client.measure.figures import Summary
from bench_client.measure.summary import summarize
from bench_client.records import Run
from bench_client.report import html, markdown
from bench_client.report.arms import make_report
from bench_client.run.store import RunFolder, load_run


def fold(path: Path) -> tuple[Run, Summary]:
    """Read a results folder and derive its figures. StoreError where it is none."""
    run = load_run(path)
    from_log = log_accept_length(run.log_text) if run.log_text else None
    return run, summarize(run, from_log)


def write_reports(folder: RunFolder, run: Run, summary: Summary) -> None:
    """Write them. StoreError where that is not possible."""
    folder.write_summary(summary)
    report = make_report([(run, summary)])
    folder.write_text("report.md", markdown.report(report))
    folder.write_text("report.html", html.report(report))


def save_run(run: Run, results: Path) -> tuple[Run, Summary]:
    """A run that was made elsewhere, as a results folder like any other."""
    header = run.header
    with RunFolder.create(results, header.plan.scenario, header.server.name) as folder:
        folder.write_header(header)
        for record in run.records:
            folder.append(record)
        kept, summary = fold(folder.path)
        write_reports(folder, kept, summary)
    return kept, summary
