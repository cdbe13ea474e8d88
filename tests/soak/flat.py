"""Whether a series of samples is flat, by a slope that a few wild samples do not sway."""

from collections.abc import Sequence
from itertools import combinations
from statistics import median

Sample = tuple[float, float]
"""Seconds since the beginning, and what was measured."""


def slope(samples: Sequence[Sample]) -> float:
    """Theil and Sen's: the median of the slopes between all pairs; 0.0 of fewer than two.

    Up to 29 % of the samples may be anything without moving it far.

    Source:
        P. K. Sen, "Estimates of the regression coefficient based on Kendall's tau", J. Am. Stat.
        Assoc. 63(324), 1968.
    """
    pairs = ((a, b) for a, b in combinations(samples, 2) if a[0] != b[0])
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in pairs]
    return median(slopes) if slopes else 0.0


def growth(samples: Sequence[Sample], least: float = 1.0) -> float:
    """By what share of its middle a series grows from its first to its last sample.

    Args:
        least: What counts as the middle where that is less: a table of three rows may double.
    """
    if len(samples) < 2:
        return 0.0
    middle = max(least, median(value for _, value in samples))
    return slope(samples) * (samples[-1][0] - samples[0][0]) / middle


def thinned(samples: Sequence[Sample], most: int = 240) -> list[Sample]:
    """Windows of equal size, each by its middle: so an hour's pairs are counted in a second."""
    size = -(-len(samples) // most)
    windows = [samples[at : at + size] for at in range(0, len(samples), size)] if size else []
    return [(median(t for t, _ in w), median(v for _, v in w)) for w in windows]
