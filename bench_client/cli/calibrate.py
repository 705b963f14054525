"""`bench-client calibrate`: the client against a server that logs when it really sent."""

from typing import Any

import click

from bench_client.cli.options import options

_load_options = options(
    click.option("--concurrency", type=click.IntRange(1), default=1, show_default=True),
    click.option(
        "--gap-ms",
        type=click.FloatRange(0.1),
        default=20.0,
        show_default=True,
        help="Time between two events of one stream.",
    ),
    click.option("--seconds", type=click.FloatRange(0.5, 600), default=5.0, show_default=True),
    click.option("--workers", type=click.IntRange(1), default=1, show_default=True),
    click.option(
        "--transport",
        type=click.Choice(["wire", "httpx", "openai"]),
        default="wire",
        show_default=True,
    ),
)


@click.command()
@_load_options
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def calibrate(as_json: bool, **given: Any) -> int:
    """Measure the client's own error at a load, against the embedded engine's send log."""
    import msgspec

    from bench_client.cli.errors import INVALID
    from bench_client.run.calibrate import CalibrationLoad
    from bench_client.run.calibrate import calibrate as run_calibration

    if given["workers"] > given["concurrency"]:
        raise click.UsageError("--workers cannot exceed --concurrency")
    load = CalibrationLoad(
        streams=given["concurrency"],
        gap_ms=given["gap_ms"],
        workers=given["workers"],
        seconds=given["seconds"],
    )
    found = run_calibration(load, given["transport"])
    if found is None:
        click.echo("bench-client: no stream could be compared: is the load too high?", err=True)
        return INVALID
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        click.echo("\n".join(_lines(found)))
    return 0


def _lines(found: Any) -> list[str]:
    ttft = f"mean {found.ttft_error_mean_ms:+.3f} ms, p99 {found.ttft_error_p99_ms:.3f} ms"
    gaps = f"p99 {found.gap_error_p99_ms:.3f} ms; their p99 is off by"
    cpu = found.cpu_us_per_event
    rate = f"{found.events:,} events at {found.events_per_s:,.0f} events/s"
    return [
        f"load         {found.streams} streams, {rate}",
        f"TTFT error   {ttft}",
        f"gap error    {gaps} {found.gap_p99_difference_ms:+.3f} ms",
        f"merged       {found.merged_events:,} events came in one read with another",
        f"CPU          {cpu:.1f} us an event" if cpu else "CPU          -",
    ]
