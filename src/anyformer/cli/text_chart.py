"""A chart of characters: losses over updates, in columns of equally many updates."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

ROWS = 8
Points = Sequence[tuple[int, float]]


def chart(curves: Sequence[tuple[str, Points]], width: int, last: int) -> list[str]:
    """Lines of `width` columns with the means of the curves' points (x, y), x from 0 to `last`, marked by its character; later
    curves stand before earlier ones."""
    labels = max(width // 8, 7)
    columns = width - labels - 2
    means = [(mark, _means(points, columns, max(last, 1))) for mark, points in curves]
    values = [value for _, found in means for value in found.values()]
    if not values or columns < 1:
        return []
    low, high = min(values), max(values)
    field = [[" "] * columns for _ in range(ROWS)]
    for mark, found in means:
        for column, value in found.items():
            share = (high - value) / (high - low) if high > low else 0.5
            field[round(share * (ROWS - 1))][column] = mark
    sides = [f"{high:.3f}", *[""] * (ROWS - 2), f"{low:.3f}"]
    lines = [f"{side:>{labels}} |{''.join(row).rstrip()}" for side, row in zip(sides, field, strict=True)]
    return [*lines, f"{'':>{labels}} +{'-' * columns}", f"{0:>{labels + 3}}{last:>{columns - 1},}"]


def _means(points: Points, columns: int, last: int) -> dict[int, float]:
    """The mean of the points per column that has some."""
    found: dict[int, list[float]] = {}
    for x, y in points:
        if y == y and abs(y) != float("inf"):
            found.setdefault(min(x * columns // (last + 1), columns - 1), []).append(y)
    return {column: mean(values) for column, values in found.items()}
