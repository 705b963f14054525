"""`bench-client calibrate`: the client against a server that logs when it really sent."""

from typing import Any

import click

from bench_client.cli.options import (
    MOST_IN_FLIGHT,
    MOST_WORKERS,
    Number,
    options,
    transport_option,
)

_load_options = options(
    click.option(
        "--concurrency",
        type=click.IntRange(1, MOST_IN_FLIGHT),
        default=1,
        show_default=True,
        help="Streams at once.",
    ),
    click.option(
        "--gap-ms",
        type=Number(0.02, 200),
        default=20.0,
        show_default=True,
        help="Time between two events of one stream.",
    ),
    click.option(
        "--seconds",
        type=Number(0.5, 600),
        default=5.0,
        show_default=True,
        help="How long the load lasts.",
    ),
    click.option(
        "--workers",
        type=click.IntRange(1, MOST_WORKERS),
        default=1,
        show_default=True,
        help="Processes that send.",
    ),
    transport_option,
)


@click.command()
@_load_options
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def calibrate(as_json: bool, **given: Any) -> int:
    """Measure the client's own error at a load, against the embedded engine's send log."""
    import httpx
    import msgspec

    from bench_client.cli.errors import INVALID
    from bench_client.measure.error import not_carried
    from bench_client.run.calibrate import CalibrationLoad
    from bench_client.run.calibrate import calibrate as run_calibration
    from bench_client.run.workers import WorkerError

    if given["workers"] > given["concurrency"]:
        raise click.UsageError("--workers cannot exceed --concurrency")
    load = CalibrationLoad(
        streams=given["concurrency"],
        gap_ms=given["gap_ms"],
        workers=given["workers"],
        seconds=given["seconds"],
    )
    try:
        found = run_calibration(load, given["transport"])
    except (OSError, WorkerError, httpx.HTTPError) as error:
        raise click.ClickException(f"cannot calibrate: {error}") from error
    if found is None:
        click.echo("bench-client: no stream could be compared: is the load too high?", err=True)
        return INVALID
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        click.echo("\n".join(_lines(found)))
    if lacking := not_carried(found):
        click.echo(f"bench-client: {lacking}", err=True)
        return INVALID
    return 0


def _lines(found: Any) -> list[str]:
    cpu = found.cpu_us_per_event
    planned = f"{found.planned_events_per_s:,.0f} events/s planned"
    amount = f"{found.events:,} events in {found.answers:,} answers"
    ttft = _worst(found.ttft_error_p99_ms, found.ttft_error_max_ms)
    gaps = _worst(found.gap_error_p99_ms, found.gap_error_max_ms)
    return [
        f"load         {found.streams} streams, {planned}, {found.events_per_s:,.0f} carried",
        f"sample       {amount}",
        f"TTFT error   mean {found.ttft_error_mean_ms:+.3f} ms, {ttft}",
        f"gap error    {gaps}{_p99_gap(found.gap_p99_difference_ms)}",
        f"merged       {found.merged_events:,} events came in one read with another",
        f"CPU          {cpu:.1f} us an event" if cpu else "CPU          -",
    ]


def _worst(p99: float | None, largest: float) -> str:
    return f"max {largest:.3f} ms" if p99 is None else f"p99 {p99:.3f} ms"


def _p99_gap(off_ms: float | None) -> str:
    return "" if off_ms is None else f"; their p99 is off by {off_ms:+.3f} ms"
