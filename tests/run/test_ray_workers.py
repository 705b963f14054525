"""What of the workers on Ray needs no Ray."""

import subprocess
import sys

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_client.cli.options import Workers
from bench_client.run.ray_workers import clock_offset
from tests.cli.helpers import one_line

NS = st.integers(0, 10**9)


@given(st.integers(-(10**15), 10**15), st.lists(st.tuples(NS, NS), min_size=1, max_size=30))
def test_the_true_offset_lies_within_the_bound(true_ns: int, ways: list[tuple[int, int]]) -> None:
    """However unlike the ways there and back are."""
    sent_ns, pings = 1_700_000_000 * 10**9, []
    for there_ns, back_ns in ways:
        pings.append((sent_ns, sent_ns + there_ns + true_ns, sent_ns + there_ns + back_ns))
        sent_ns += there_ns + back_ns
    offset_ns, uncertainty_ns = clock_offset(pings)
    assert abs(offset_ns - true_ns) <= uncertainty_ns
    assert uncertainty_ns == min(there + back + 1 for there, back in ways) // 2


def test_the_quickest_ping_counts() -> None:
    slow, quick = (0, 5_000_900, 1_000), (2_000, 5_002_050, 2_100)
    assert clock_offset([slow, quick, slow]) == (5_000_000, 50)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", (1, None)),
        ("16", (16, None)),
        ("ray://auto", (None, "auto")),
        ("ray://head:10001", (None, "head:10001")),
        ("ray://head:10001?workers=8", (8, "head:10001")),
        ("ray://[fd00::1]:10001?workers=8", (8, "[fd00::1]:10001")),
    ],
)
def test_workers(text: str, value: tuple[int | None, str | None]) -> None:
    assert Workers().convert(text, None, None) == value


@pytest.mark.parametrize(
    "text",
    [
        *("0", "-1", "two", "", "1.5", "ray:auto", "ray://", "ray://head"),
        *(f"ray://head:10001?{query}" for query in ("workers=0", "workers=", "worker=2")),
    ],
)
def test_what_is_no_number_of_workers(text: str) -> None:
    with pytest.raises(click.UsageError, match="ray://"):
        Workers().convert(text, None, None)


def test_a_missing_package_is_named_before_anything_is_launched() -> None:
    hidden = "import sys; sys.modules['ray'] = None; from bench_client.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", hidden, "--server", "sim", "--workers", "ray://head:10001"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "bench-client[ray]" in one_line(done)
