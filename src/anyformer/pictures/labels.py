"""Names beside points, none over another: each takes the first free place around its point."""

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


STRANGE, CLEAR = 100.0, 1.6
"""How much worse a place is whose name could be another point's: one that is not so many times as far; twice that if taken."""


@dataclass(frozen=True)
class Box:
    """A rectangle in points."""

    left: float
    bottom: float
    right: float
    top: float

    def meets(self, other: Box) -> bool:
        return self.left < other.right and other.left < self.right and self.bottom < other.top and other.bottom < self.top

    def distance(self, point: Point) -> float:
        """From the nearest place of the box."""
        x, y = point
        return hypot(max(self.left - x, 0, x - self.right), max(self.bottom - y, 0, y - self.top))

    def inside(self, other: Box) -> bool:
        return other.left <= self.left and self.right <= other.right and other.bottom <= self.bottom and self.top <= other.top


def placed(points: Sequence[Point], names: Sequence[str], room: Box, taken: Iterable[Box] = ()) -> list[Box]:
    """A box for each name within `room`, clear of all points, of what is `taken` and of each other where there is space.

    Names take their places one after the other, once from the right and once from the left; the better of both stays.
    """
    full = [*taken, *(Box(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in points)]
    rightwards = sorted(range(len(points)), key=lambda i: points[i])
    tried = [_in_turn(turns, points, names, room, full) for turns in (rightwards[::-1], rightwards)]
    found, _ = min(tried, key=lambda boxes_and_cost: boxes_and_cost[1])
    return [found[i] for i in range(len(points))]


def _in_turn(
    turns: Sequence[int], points: Sequence[Point], names: Sequence[str], room: Box, full: Sequence[Box]
) -> tuple[dict[int, Box], float]:
    """Boxes by number, each the best that those before it have left, and how bad they are together."""
    found: dict[int, Box] = {}
    total = 0.0
    for i in turns:
        x, y = points[i]
        lines = names[i].split("\n")
        sizes = LETTER * max(map(len, lines)) + GAP, LINE * len(lines)
        others = [point for point in points if point != points[i]]
        costs = {Box(x, y, x, y): 4 * STRANGE}
        for place, box in enumerate(_around(x, y, *sizes)):
            if box.inside(room):
                met = any(box.meets(other) for other in (*full, *found.values()))
                strange = any(box.distance(other) < CLEAR * box.distance(points[i]) for other in others)
                costs[box] = place + STRANGE * strange + 2 * STRANGE * met
        found[i] = min(costs, key=lambda box: costs[box])
        total += costs[found[i]]
    return found, total


def _around(x: float, y: float, wide: float, high: float) -> Iterator[Box]:
    """Beside a point, then below it, then above, then the same further away: what bounds a point mostly lies above it."""
    right, left, middle = x + MARK + 2, x - MARK - 2 - wide, x - wide / 2
    steps = [(side * (MARK + high / 2 + 1 + ring)) for rings in RINGS for side in (-1, 1) for ring in rings]
    for start, along in ((right, 0.0), (left, 0.0), *((start, step) for step in steps for start in (middle, right, left))):
        yield Box(start, y + along - high / 2, start + wide, y + along + high / 2)


def _together(points: Sequence[Point], names: Sequence[str]) -> tuple[list[Point], list[str]]:
    """Points that lie on one another as one, with all their names."""
    found: dict[Point, list[str]] = {}
    for point, name in zip(points, names, strict=True):
        home = next((other for other in found if max(abs(point[0] - other[0]), abs(point[1] - other[1])) < MARK), point)
        found.setdefault(home, []).append(name)
    return list(found), [fill(", ".join(dict.fromkeys(each)), WRAP) for each in found.values()]


def label(axes: Axes, points: Sequence[Point], names: Sequence[str], lines: Sequence[Point]) -> None:
    """Write names beside data points, off the `lines`; a thin line leads to those further away.

    Called last of all: names stand where the panels are now, so the layout is settled here and stays.
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

    frame = axes.bbox
    room = Box(frame.x0 * scale, frame.y0 * scale, frame.x1 * scale, frame.y1 * scale)
    homes, called = _together(on_paper(points), names)
    taken = [Box(x - 1, y - 1, x + 1, y + 1) for x, y in on_paper(lines)]
    taken += [Box(*(each * scale for each in text.get_window_extent().extents)) for text in axes.texts]
    at = dict(zip(on_paper(points), points, strict=True))
    for (x, y), box, name in zip(homes, placed(homes, called, room, taken), called, strict=True):
        dx, dy = (box.left + box.right) / 2 - x, (box.bottom + box.top) / 2 - y
        beside, over = box.bottom <= y <= box.top, box.left <= x <= box.right
        # A name that stands neither beside its point nor close above or below it could be another's: a line says whose it is.
        line = None if beside or (over and box.distance((x, y)) < 2 * MARK) else LEADER | {"relpos": _nearest(box, x, y)}
        written = axes.annotate(
            name, at[x, y], (dx, dy), textcoords="offset points",
            ha="center", va="center", fontsize=8.5, arrowprops=line,
        )  # fmt: skip
        written.set_in_layout(False)


def _nearest(box: Box, x: float, y: float) -> Point:
    """The place of a box nearest to a point, as shares of its width and height."""
    across = (x - box.left) / (box.right - box.left)
    return min(max(across, 0.0), 1.0), 0.0 if y < box.bottom else 1.0
