"""`LengthCurve`: figures of any length, interpolated between lengths at which they were asked for once."""

from __future__ import annotations

import math
from collections.abc import Callable

FINEST = 64
"""Least distance of two lengths at which a curve is asked for: windows and chunks of masks end on multiples of it."""
PER_DOUBLING = 32


class LengthCurve:
    """Figures (K,) that a function gives of a length from 1 on, by a parabola through three lengths of each cell.

    Exact where the figures are polynomials of at most second degree within a cell, as pairs of a causal mask, of a window or of
    chunks that end on multiples of `FINEST` are, and bytes of states. A function is asked when a length first needs it.
    """

    def __init__(self, figures: Callable[[int], tuple[float, ...]]) -> None:
        self._figures = figures
        self._asked: dict[int, tuple[float, ...]] = {}
        self._cells: dict[int, tuple[tuple[float, float, float], ...]] = {}

    def at(self, length: float) -> tuple[float, ...]:
        """The figures of a length, whole or not."""
        if length <= 0:
            return tuple(0.0 for _ in self.ask(2))
        low = _width(length) * (math.ceil(length / _width(length)) - 1)
        parabolas = self._cells.get(low)
        if parabolas is None:
            parabolas = self._cells[low] = self._fit(low)
        x = length - low
        return tuple(c + x * (b + x * a) for a, b, c in parabolas)

    def _fit(self, low: int) -> tuple[tuple[float, float, float], ...]:
        """(second degree, first degree, constant) of each figure, of the distance from the cell's beginning."""
        width, first = _width(low + 1), low or 2
        ends = first, (low + width + first) // 2, low + width
        near, middle, far = (self.ask(length) for length in ends)
        h, k = ends[1] - first, ends[2] - first
        made = []
        for y0, y1, y2 in zip(near, middle, far, strict=True):
            second = ((y2 - y0) / k - (y1 - y0) / h) / (k - h)
            slope = (y1 - y0) / h - second * h
            shift = first - low
            made.append((second, slope - 2 * second * shift, y0 - slope * shift + second * shift * shift))
        return tuple(made)

    def ask(self, length: int) -> tuple[float, ...]:
        """The figures as the function gives them."""
        if length not in self._asked:
            self._asked[length] = self._figures(length)
        return self._asked[length]


def _width(length: float) -> int:
    """The width of the cell in which a length is."""
    width = FINEST
    while width * PER_DOUBLING * 2 < length:
        width *= 2
    return width
