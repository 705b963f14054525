"""Run the arms one after another, show how it goes, end with the comparison."""

import sys
from collections.abc import Iterable, Iterator

import click
from msgspec import Struct

from bench_client.cli.errors import INTERRUPTED, INVALID
from bench_client.cli.progress import ProgressLine, Silent
from bench_client.cli.show import print_json, print_report
from bench_client.measure.compare import compare
from bench_client.records import Plan
from bench_client.report.arms import make_report
from bench_client.run.arm import ArmResult, ArmRun
from bench_client.run.blocks import blocks
from bench_client.run.interrupts import StopAtOnce, interruptible
from bench_client.run.options import Arm, Observer, RunOptions
from bench_client.run.secrets import scrubbed
from bench_client.run.store import StoreError
from server_launchers.process import LaunchError


class Experiment(Struct, frozen=True, kw_only=True):
    """One plan, one or more arms; the first is the baseline."""

    plan: Plan
    arms: tuple[Arm, ...]
    options: RunOptions


def run_experiment(experiment: Experiment, *, quiet: bool, as_json: bool) -> int:
    """Run every arm and report; the exit code.

    What ends the experiment early, an error or a signal, is raised after what was measured before
    it has been reported.
    """
    observer = Silent() if quiet else ProgressLine(sys.stderr)
    begun: dict[int, ArmRun] = {}
    failure: BaseException | None = None
    with interruptible(observer.note) as orders:
        try:
            with observer:
                _measure(experiment, begun, observer)
        except StopAtOnce:
            raise
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 (raised again below)
            failure = error
        orders.deferred = True  # reports are written and shown first
        observer.reporting()
        done, unsaved = _finish(arm for arm in begun.values() if arm.measured)
        failure = failure or unsaved
        if done:
            _report(done, quiet=quiet, as_json=as_json)
        for line in _last_words(begun.values(), observer.noted):
            click.echo(f"bench-client: {line}", err=True)
    if failure:
        raise _without(failure, experiment.options.secrets)
    return INTERRUPTED if orders.came else _exit_code(done)


def _last_words(arms: Iterable[ArmRun], interrupted: str | None) -> Iterator[str]:
    """What servers have left behind, and what a signal came in the midst of."""
    unmeasured = ""
    for arm in arms:
        yield from arm.left_behind
        if not arm.measured:
            log = arm.discard()
            unmeasured = f": nothing of {arm.name} was measured" + (f", see {log}" if log else "")
    if interrupted:
        yield f"interrupted while {interrupted}{unmeasured}"


def _measure(experiment: Experiment, begun: dict[int, ArmRun], observer: Observer) -> None:
    """Block by block, until one does not run to its end; after the last, calibrate the client."""
    plan, options = experiment.plan, experiment.options
    last: ArmRun | None = None
    for block in blocks(len(experiment.arms), plan.repeats):
        arm = experiment.arms[block.arm]
        _check_free(last, arm)
        if block.arm not in begun:
            begun[block.arm] = ArmRun(arm, plan, options, observer)
        last = begun[block.arm]
        last.measure(block.repeats)
        if not last.complete:
            return
    for done in begun.values():
        done.calibrate()


def _check_free(last: ArmRun | None, arm: Arm) -> None:
    """Nothing is launched beside what the server before it still holds."""
    held = last.held() if last else None
    if held:
        raise LaunchError(f"{arm.name} was not launched: {held}")


def _finish(arms: Iterable[ArmRun]) -> tuple[list[ArmResult], StoreError | None]:
    """Every arm that can be read back, and the first reason why something was not kept."""
    done: list[ArmResult] = []
    unsaved: StoreError | None = None
    for arm in arms:
        try:
            done.append(arm.finish())
        except StoreError as error:
            unsaved = unsaved or error
        else:
            unsaved = unsaved or done[-1].unsaved
    return done, unsaved


def _report(done: list[ArmResult], *, quiet: bool, as_json: bool) -> None:
    report = make_report(
        [(result.run, result.summary) for result in done],
        [compare(done[0].run, other.run) for other in done[1:]],
    )
    if as_json:
        print_json(report)
    elif not quiet:
        print_report(report)
        for result in done:
            click.echo(f"results: {result.folder}")


def _without(error: BaseException, secrets: tuple[str, ...]) -> BaseException:
    """The same error; what it says may quote a server that quotes the request's headers."""
    error.args = tuple(scrubbed(x, secrets) if isinstance(x, str) else x for x in error.args)
    return error


def _exit_code(done: list[ArmResult]) -> int:
    if any(result.run.header.ended == "interrupted" for result in done):
        return INTERRUPTED
    for result in done:
        header = result.run.header
        if header.note:
            died = f"{header.server.name}: the server died: " if header.ended == "aborted" else ""
            click.echo(f"bench-client: {died}{header.note}", err=True)
    failed = any(result.summary.requests.failed for result in done)
    return INVALID if failed or any(r.summary.verdict == "invalid" for r in done) else 0
