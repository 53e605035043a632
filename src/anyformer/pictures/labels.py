"""Names beside points, none over another: each name has the first free place around its point."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import hypot
from textwrap import fill
from typing import TYPE_CHECKING

from anyformer.pictures.style import FAINT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEADER = {"arrowstyle": "-", "color": FAINT, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 5}
WRAP = 44
"""Letters in a line."""
LETTER, LINE, MARK, GAP = 4.9, 11.0, 6.0, 6.0
"""Width of a letter, height of a line, half a marker and the space between names, in points."""
RINGS = (0.0, 14.0, 28.0), (42.0, 56.0, 70.0)
"""How far from its point a name may stand, above or below: near, then further."""


Point = tuple[float, float]
AMBIGUOUS, CLEAR = 100.0, 1.6
"""The cost of a place whose name could be another point's, one less than `CLEAR` times as far; twice that if it is taken."""


@dataclass(frozen=True)
class LabelBox:
    """A rectangle in points."""

    left: float
    bottom: float
    right: float
    top: float

    def meets(self, other: LabelBox) -> bool:
        return self.left < other.right and other.left < self.right and self.bottom < other.top and other.bottom < self.top

    def distance(self, point: Point) -> float:
        """Distance of a point from the box."""
        x, y = point
        return hypot(max(self.left - x, 0, x - self.right), max(self.bottom - y, 0, y - self.top))

    def inside(self, other: LabelBox) -> bool:
        return other.left <= self.left and self.right <= other.right and other.bottom <= self.bottom and self.top <= other.top


def placed(points: Sequence[Point], names: Sequence[str], frame: LabelBox, taken: Iterable[LabelBox] = ()) -> list[LabelBox]:
    """A box per name within the frame, clear of all points, of boxes `taken` and of one another where there is space.

    Names take their places one after the other, once from the right and once from the left; the better result counts.
    """
    full = [*taken, *(LabelBox(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in points)]
    rightwards = sorted(range(len(points)), key=lambda i: points[i])
    tried = [_in_turn(turns, points, names, frame, full) for turns in (rightwards[::-1], rightwards)]
    boxes, _ = min(tried, key=lambda boxes_and_cost: boxes_and_cost[1])
    return [boxes[i] for i in range(len(points))]


def _in_turn(
    turns: Sequence[int], points: Sequence[Point], names: Sequence[str], frame: LabelBox, full: Sequence[LabelBox]
) -> tuple[dict[int, LabelBox], float]:
    """Boxes by number, each the best place left by earlier ones, and the sum of their costs."""
    boxes: dict[int, LabelBox] = {}
    total = 0.0
    for i in turns:
        x, y = points[i]
        lines = names[i].split("\n")
        sizes = LETTER * max(map(len, lines)) + GAP, LINE * len(lines)
        others = [point for point in points if point != points[i]]
        costs = {LabelBox(x, y, x, y): 4 * AMBIGUOUS}
        for place, box in enumerate(_around(x, y, *sizes)):
            if box.inside(frame):
                overlaps = any(box.meets(other) for other in (*full, *boxes.values()))
                ambiguous = any(box.distance(other) < CLEAR * box.distance(points[i]) for other in others)
                costs[box] = place + AMBIGUOUS * ambiguous + 2 * AMBIGUOUS * overlaps
        boxes[i] = min(costs, key=lambda box: costs[box])
        total += costs[boxes[i]]
    return boxes, total


def _around(x: float, y: float, wide: float, high: float) -> Iterator[LabelBox]:
    """Places beside a point, then below it, then above, then further away: the roof that bounds a point is mostly above it."""
    right, left, middle = x + MARK + 2, x - MARK - 2 - wide, x - wide / 2
    steps = [(side * (MARK + high / 2 + 1 + ring)) for rings in RINGS for side in (-1, 1) for ring in rings]
    for start, along in ((right, 0.0), (left, 0.0), *((start, step) for step in steps for start in (middle, right, left))):
        yield LabelBox(start, y + along - high / 2, start + wide, y + along + high / 2)


def _together(points: Sequence[Point], names: Sequence[str]) -> tuple[list[Point], list[str]]:
    """Points that overlap as one point with all their names."""
    groups: dict[Point, list[str]] = {}
    for point, name in zip(points, names, strict=True):
        home = next((other for other in groups if max(abs(point[0] - other[0]), abs(point[1] - other[1])) < MARK), point)
        groups.setdefault(home, []).append(name)
    return list(groups), [fill(", ".join(dict.fromkeys(group)), WRAP) for group in groups.values()]


def label(axes: Axes, points: Sequence[Point], names: Sequence[str], lines: Sequence[Point]) -> None:
    """Write names beside data points, off the `lines`; a thin line leads to those further away.

    To be called after all else is drawn: names are placed for the panels as they are, so the layout is fixed here.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    figure.set_layout_engine("none")
    scale = 72 / figure.dpi

    def on_paper(data: Sequence[Point]) -> list[Point]:
        return [(x * scale, y * scale) for x, y in axes.transData.transform(data)]

    frame = LabelBox(*(side * scale for side in axes.bbox.extents))
    homes, titles = _together(on_paper(points), names)
    taken = [LabelBox(x - 1, y - 1, x + 1, y + 1) for x, y in on_paper(lines)]
    taken += [LabelBox(*(side * scale for side in text.get_window_extent().extents)) for text in axes.texts]
    at = dict(zip(on_paper(points), points, strict=True))
    for (x, y), box, name in zip(homes, placed(homes, titles, frame, taken), titles, strict=True):
        dx, dy = (box.left + box.right) / 2 - x, (box.bottom + box.top) / 2 - y
        beside, over = box.bottom <= y <= box.top, box.left <= x <= box.right
        # A name neither beside its point nor close above or below it could be another's: a line leads to its point.
        line = None if beside or (over and box.distance((x, y)) < 2 * MARK) else LEADER | {"relpos": _nearest(box, x, y)}
        written = axes.annotate(
            name, at[x, y], (dx, dy), textcoords="offset points",
            ha="center", va="center", fontsize=8.5, arrowprops=line,
        )  # fmt: skip
        written.set_in_layout(False)


def _nearest(box: LabelBox, x: float, y: float) -> Point:
    """The corner or edge of a box nearest to a point, as shares of its width and height."""
    across = (x - box.left) / (box.right - box.left)
    return min(max(across, 0.0), 1.0), 0.0 if y < box.bottom else 1.0
