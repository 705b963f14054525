"""Three small charts as inline SVG: no script, no asset, colours from the page's style sheet."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from bench_client.report.text import plain

WIDTH = 720
NAMES, LEFT, RIGHT, BOTTOM = 160, 76, 24, 44
COLOURS = 6  # as many as the style sheet defines


class Strip(NamedTuple):
    """One arm's values, each with its own tooltip, their mean and its interval."""

    name: str
    values: Sequence[tuple[float, str]]
    mean: float | None
    ci95: tuple[float, float] | None


class Curve(NamedTuple):
    """One arm's points, x ascending."""

    name: str
    points: Sequence[tuple[float, float]]


class Scale(NamedTuple):
    """Linear: `low` falls on pixel `start`, `high` on `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Pixel of `value`."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        """About five round values."""
        step = _round_step((self.high - self.low) / 5)
        first = math.ceil(self.low / step - 1e-9)
        return [i * step for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def strips(groups: Sequence[Strip], label: str) -> str:
    """A row of dots for each group, above it the mean with its 95% interval."""
    height = 56 * len(groups) + 8
    values = [value for group in groups for value, _ in group.values]
    x = _scale(values, NAMES, WIDTH - RIGHT)
    marks = _x_axis(x, height, label)
    for i, group in enumerate(groups):
        middle = 56 * i + 36
        marks.append(_text(NAMES - 12, middle, group.name, "end"))
        marks += [
            f'<circle class="c{i % COLOURS}" cx="{x.at(value)}" cy="{middle}" r="5">'
            f"<title>{_safe(tip)}</title></circle>"
            for value, tip in group.values
        ]
        marks += _mean(group, x, middle - 18, i)
    return _svg(height + BOTTOM, label, marks)


def _mean(group: Strip, x: Scale, y: float, colour: int) -> list[str]:
    marks = []
    if group.ci95:
        low, high = (x.at(min(max(bound, x.low), x.high)) for bound in group.ci95)
        marks.append(f'<path class="l{colour % COLOURS}" d="M{low} {y}H{high}"/>')
    if group.mean is not None:
        at = x.at(group.mean)
        marks.append(f'<path class="l{colour % COLOURS}" d="M{at} {y - 6}v12"/>')
    return marks


def curves(lines: Sequence[Curve], x_label: str, y_label: str) -> str:
    """Steps from each point to the next, all curves from zero."""
    top, height = 24 + 20 * len(lines), 300 + 20 * len(lines)
    points = [point for line in lines for point in line.points]
    x = _scale([0, *(at for at, _ in points)], LEFT, WIDTH - RIGHT)
    y = _scale([0, *(value for _, value in points)], height, top)
    marks = [*_x_axis(x, height, x_label), *_y_axis(y, y_label)]
    for i, line in enumerate(lines):
        path = "".join(f"H{x.at(at)}V{y.at(value)}" for at, value in line.points)
        marks.append(f'<path class="l{i % COLOURS}" d="M{x.at(0)} {y.at(0)}{path}"/>')
        marks.append(f'<path class="l{i % COLOURS}" d="M{LEFT} {18 + 20 * i}h20"/>')
        marks.append(_text(LEFT + 28, 22 + 20 * i, line.name))
    return _svg(height + BOTTOM, y_label, marks)


def speedups(
    points: Sequence[tuple[float, float, str]], cost: float, y_label: str, colour: int
) -> str:
    """Accept length against speedup, with the line speedup = accept length / cost.

    The dashed lines cross where it breaks even: at accept length `cost` and speedup 1.
    """
    height, top = 300, 12
    x = _scale([1, cost, *(length for length, _, _ in points)], LEFT, WIDTH - RIGHT)
    y = _scale([0.9, 1.1, *(speedup for _, speedup, _ in points)], height, top)
    left, right = max(x.low, y.low * cost), min(x.high, y.high * cost)
    line = f"M{x.at(left)} {y.at(left / cost)}L{x.at(right)} {y.at(right / cost)}"
    marks = [
        *_x_axis(x, height, "accept length"),
        *_y_axis(y, y_label),
        f'<path class="guide dashed" d="M{LEFT} {y.at(1)}H{WIDTH - RIGHT}"/>',
        f'<path class="guide dashed" d="M{x.at(cost)} {height}V{top}"/>',
        f'<path class="guide" d="{line}"/>',
        _text(x.at(cost) + 6, top + 12, f"break-even {cost:.2f}"),
    ]
    marks += [
        f'<circle class="c{colour % COLOURS}" cx="{x.at(length)}" cy="{y.at(speedup)}" r="5">'
        f"<title>{_safe(tip)}</title></circle>"
        for length, speedup, tip in points
    ]
    return _svg(height + BOTTOM, f"accept length and {y_label}", marks)


def _scale(values: Iterable[float], start: float, end: float) -> Scale:
    """From the round value below the least to the one above the largest."""
    values = list(values)
    low, high = min(values), max(values)
    step = _round_step((high - low or abs(high) or 1) / 5)
    bottom, top = math.floor(low / step) * step, math.ceil(high / step) * step
    return Scale(bottom, top if top > bottom else bottom + step, start, end)


def _round_step(rough: float) -> float:
    power: float = 10.0 ** math.floor(math.log10(rough))
    return next(power * m for m in (1, 2, 5, 10) if power * m >= rough * (1 - 1e-9))


def _x_axis(x: Scale, y: float, label: str) -> list[str]:
    marks = [f'<path class="axis" d="M{x.start} {y}H{x.end}"/>']
    marks += [_text(x.at(tick), y + 18, _tick(tick), "middle") for tick in x.ticks()]
    marks.append(_text((x.start + x.end) / 2, y + 38, label, "middle"))
    return marks


def _y_axis(y: Scale, label: str) -> list[str]:
    marks = [_text(LEFT - 10, y.at(tick) + 4, _tick(tick), "end") for tick in y.ticks()]
    middle = (y.start + y.end) / 2
    turned = f'<text class="label" transform="translate(14 {middle}) rotate(-90)"'
    marks.append(f'{turned} text-anchor="middle">{_safe(label)}</text>')
    return [*marks, f'<path class="axis" d="M{LEFT} {y.start}V{y.end}"/>']


def _tick(value: float) -> str:
    return f"{value:,.10g}"


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{_safe(text)}</text>'


def _safe(text: str) -> str:
    return escape(plain(text))


def _svg(height: float, label: str, marks: Sequence[str]) -> str:
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{_safe(label)}">'
    return "\n".join((head, *marks, "</svg>"))
