import math

import pytest

from bench_client.report import text


@pytest.mark.parametrize(
    ("value", "decimals", "shown"),
    [
        (None, 2, "-"),
        (math.nan, 2, "-"),
        (math.inf, 2, "-"),
        (0.0, 2, "0.00"),
        (-0.004, 2, "0.00"),
        (-0.04, 2, "-0.04"),
        (95819.59, 0, "95,820"),
    ],
)
def test_number(value: float | None, decimals: int, shown: str) -> None:
    assert text.number(value, decimals) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(478.2, "478"), (43.18, "43.2"), (4.314, "4.31"), (0.0521, "0.052")]
)
def test_ms_has_three_digits(value: float, shown: str) -> None:
    assert text.number(value, text.ms_decimals(value)) == shown


def test_tps_has_two_decimals_then_one() -> None:
    assert [text.tps_decimals(rate) for rate in (42.72, 99.99, 100.0, 1174.22)] == [2, 2, 1, 1]


def test_a_column_takes_the_decimals_of_its_largest_value() -> None:
    assert text.column([9.876, None, 101.87], text.tps_decimals) == ["9.9", "-", "101.9"]
    assert text.column([None, None], text.ms_decimals) == ["-", "-"]


def test_interval_and_times() -> None:
    assert text.interval((1.882, 2.196), 2) == "[1.88, 2.20]"
    assert text.interval(None, 2) == "-"
    assert (text.times(2.039), text.times(None)) == ("2.04x", "-")


def test_a_narrow_interval_gets_a_third_decimal() -> None:
    assert text.ratio_with_interval(1.0302, (1.0271, 1.0339)) == ("1.030x", "[1.027, 1.034]")
    assert text.ratio_with_interval(2.039, (1.882, 2.196)) == ("2.04x", "[1.88, 2.20]")
    assert text.ratio_with_interval(2.039, None) == ("2.04x", "-")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, "-"), (0.0, "0:00"), (42.4, "0:42"), (59.6, "1:00"), (492, "8:12"), (3725, "1:02:05")],
)
def test_duration(seconds: float | None, shown: str) -> None:
    assert text.duration(seconds) == shown


def test_percent_keeps_two_digits() -> None:
    assert [text.percent(share) for share in (0.12, 0.025, -0.031)] == ["12%", "2.5%", "-3.1%"]


def test_plain_drops_control_characters() -> None:
    assert text.plain("a\x1b[31mb\nc\td中") == "a [31mb c d中"
