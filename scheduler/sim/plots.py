"""Plots as SVG text: nothing but shapes, so that a page needs no script."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 280
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 16, 44

COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4d4d4d", "#a6761d",
)  # fmt: skip
"""Told apart also by those who see few colours. Source: Okabe and Ito, "Color Universal Design",
2008, yellow left out for white paper."""

POINTS_MAX = 800
"""Points of one curve; more cannot be told apart at this width."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a plot; xs ascending, ys of the same length."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis shows.

    Attributes:
        logarithmic: Values at or below `least` are drawn at it.
        least: Where the axis begins.
    """

    title: str
    logarithmic: bool = False
    least: float = 0.0


def line_plot(title: str, curves: Sequence[Curve], x: Axis, y: Axis) -> str:
    """A plot with axes, a legend and a title for who cannot see it."""
    curves = [_thinned(curve) for curve in curves if curve.xs]
    across = _Scale(x, [v for c in curves for v in c.xs], LEFT, WIDTH - RIGHT)
    upward = _Scale(y, [v for c in curves for v in c.ys], HEIGHT - BOTTOM, TOP)
    parts = [*_axes(across, upward, x, y)]
    for number, curve in enumerate(curves):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(
            f"{across.at(a):.1f},{upward.at(b):.1f}"
            for a, b in zip(curve.xs, curve.ys, strict=True)
        )
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.6" points="{points}"/>'
        )
        at_x, at_y = LEFT + 10 + 140 * (number % 4), TOP + 10 + 16 * (number // 4)
        parts.append(
            f'<rect x="{at_x}" y="{at_y - 8}" width="10" height="10" fill="{colour}"/>'
            f'<text x="{at_x + 14}" y="{at_y}">{escape(curve.name)}</text>'
        )
    body = "\n".join(parts)
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>\n{body}\n</svg>"
    )


def _thinned(curve: Curve) -> Curve:
    step = -(-len(curve.xs) // POINTS_MAX)
    return Curve(curve.name, curve.xs[::step], curve.ys[::step]) if step > 1 else curve


class _Scale:
    """Values to points along one axis."""

    def __init__(self, axis: Axis, values: Sequence[float], start: float, end: float) -> None:
        self._axis, self._start, self._end = axis, start, end
        finite = [v for v in values if math.isfinite(v)]
        self._low = self._shown(axis.least)
        self._high = max((self._shown(v) for v in finite), default=self._low)
        if self._high <= self._low:
            self._high = self._low + 1.0

    def _shown(self, value: float) -> float:
        value = max(value, self._axis.least)
        return math.log10(value) if self._axis.logarithmic else value

    def at(self, value: float) -> float:
        share = (self._shown(value) - self._low) / (self._high - self._low)
        return self._start + (self._end - self._start) * min(max(share, 0.0), 1.0)

    def ticks(self) -> list[float]:
        """Round values along the axis."""
        if self._axis.logarithmic:
            powers = range(math.ceil(self._low), math.floor(self._high) + 1)
            return [10.0**power for power in powers]
        span = self._high - self._low
        step = 10.0 ** math.floor(math.log10(span))
        step = next(step * f for f in (0.2, 0.5, 1.0, 2.0) if span / (step * f) <= 6)
        first = math.ceil(self._low / step)
        return [step * k for k in range(first, math.floor(self._high / step + 1e-9) + 1)]


def _axes(across: _Scale, upward: _Scale, x: Axis, y: Axis) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    out = [f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>']
    for value in across.ticks():
        at = across.at(value)
        out.append(f'<text class="tick" x="{at:.1f}" y="{bottom + 16}">{value:g}</text>')
    for value in upward.ticks():
        at = upward.at(value)
        out.append(
            f'<path class="grid" d="M{LEFT} {at:.1f}H{right}"/>'
            f'<text class="side" x="{LEFT - 6}" y="{at + 4:.1f}">{value:g}</text>'
        )
    middle = (LEFT + right) / 2
    out.append(f'<text class="tick" x="{middle}" y="{HEIGHT - 8}">{escape(x.title)}</text>')
    out.append(
        f'<text class="tick" transform="translate(14 {(TOP + bottom) / 2}) rotate(-90)">'
        f"{escape(y.title)}</text>"
    )
    return out
