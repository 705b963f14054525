import math
import re

import pytest

from bench_client.report import charts


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (40.0, 120.0, [40, 60, 80, 100, 120]),
        (0.0, 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.5, 2.5, [0.5, 1, 1.5, 2, 2.5]),
    ],
)
def test_ticks_are_round(low: float, high: float, ticks: list[float]) -> None:
    assert charts.Scale(low, high, 0, 100).ticks() == pytest.approx(ticks)


def test_one_value_and_equal_values_can_be_drawn() -> None:
    for values in ([44.0], [44.0, 44.0], [0.0]):
        group = charts.Strip("a", [(value, "tip") for value in values], values[0], None)
        assert charts.strips([group], "tok/s").count("<circle") == len(values)


def test_an_interval_beyond_the_dots_stays_within_the_chart() -> None:
    group = charts.Strip("a", [(40.0, ""), (60.0, "")], 50.0, (-1000.0, 1000.0))
    drawn = charts.strips([group], "tok/s")
    assert f'd="M{charts.NAMES}.0 18H{charts.WIDTH - charts.RIGHT}.0"' in drawn


def test_speedup_line_passes_through_break_even() -> None:
    drawn = charts.speedups([(3.0, 3.0 / 1.9, "p")], 1.9, "speedup", 1)
    line = re.search(r'guide" d="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)"', drawn)
    dot = re.search(r'cx="([\d.]+)" cy="([\d.]+)"', drawn)
    assert line
    assert dot
    x1, y1, x2, y2 = map(float, line.groups())
    cx, cy = map(float, dot.groups())
    on_line = y1 + (cx - x1) / (x2 - x1) * (y2 - y1)
    assert math.isclose(on_line, cy, abs_tol=0.5)


def test_a_curve_ends_at_its_last_point() -> None:
    curve = charts.Curve("a", [(1.0, 10.0), (2.0, 100.0)])
    drawn = charts.curves([curve], "s", "tokens")
    assert f'H{charts.WIDTH - charts.RIGHT}.0V44.0"/>' in drawn
