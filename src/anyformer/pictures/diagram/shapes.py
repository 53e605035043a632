"""The shapes of a picture, in points (1/72 inch), y upwards: boxes, words, lines, marks, ticks and strips."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, Self

from anyformer.pictures.diagram.text import LINE, width_of

Align = Literal["left", "center", "right"]
Point = tuple[float, float]
Extent = tuple[float, float, float, float]
"""Left, bottom, right, top."""


@dataclass(frozen=True)
class _Placed:
    """A shape at a point."""

    x: float
    y: float

    def moved(self, dx: float, dy: float) -> Self:
        return replace(self, x=self.x + dx, y=self.y + dy)


@dataclass(frozen=True)
class _Rectangle(_Placed):
    """A shape with its lower left corner at a point."""

    width: float
    height: float

    @property
    def extent(self) -> Extent:
        return self.x, self.y, self.x + self.width, self.y + self.height


@dataclass(frozen=True)
class Box(_Rectangle):
    """A rectangle; `about` and `says`: its place and its text, which are compared with other pictures; `part`: the path of the
    part of the description that it stands for."""

    tone: str
    about: str = ""
    says: str = ""
    differs: bool = False
    part: str = ""

    @property
    def filled(self) -> bool:
        """Whether it has a colour of its own, and is not the white ground of a sublayer."""
        return self.tone not in ("mixing", "pointing")

    @property
    def frame(self) -> bool:
        """Whether it stands behind all shapes in it, lines too."""
        return self.tone in ("frame", "group")


@dataclass(frozen=True)
class TextLine(_Placed):
    """One line of text, centred on y."""

    says: str
    size: float
    bold: bool = False
    align: Align = "center"
    faint: bool = False
    about: str = ""
    differs: bool = False

    @property
    def extent(self) -> Extent:
        width = width_of(self.says, self.size, self.bold)
        left = self.x - {"left": 0.0, "center": width / 2, "right": width}[self.align]
        return left, self.y - self.size * LINE / 2, left + width, self.y + self.size * LINE / 2


@dataclass(frozen=True)
class Polyline:
    """A line along points, with an arrow at its end or not; `dashed`: one of several ways through layers that take turns."""

    points: tuple[Point, ...]
    arrow: bool = False
    dashed: bool = False
    thick: bool = False
    behind: bool = False
    """Whether it passes behind sublayers, in front of the frames around them."""

    def moved(self, dx: float, dy: float) -> Polyline:
        return replace(self, points=tuple((x + dx, y + dy) for x, y in self.points))


@dataclass(frozen=True)
class Mark(_Placed):
    """A small circle with a sign where streams are added or multiplied; without a sign a dot where a branch leaves."""

    sign: str = ""


@dataclass(frozen=True)
class Cells(_Rectangle):
    """Little squares in rows from the upper left; each has the number of its shade."""

    rows: int
    shades: tuple[int, ...]
    tone: str
    about: str = ""
    differs: bool = False

    @property
    def says(self) -> tuple[int, ...]:
        """What is compared with other pictures."""
        return self.shades


Shape = Box | TextLine | Polyline | Mark | Cells


@dataclass(frozen=True)
class Drawing:
    """Shapes within (0, 0) and (width, height)."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    ports: tuple[Point, ...] = ()
    """Points where the source enters."""

    @property
    def stacked(self) -> list[Shape]:
        """The shapes from the back to the front: frames, lines behind sublayers, boxes and lines, marks, words."""
        return sorted(self.shapes, key=_depth)

    def at(self, x: float, y: float) -> tuple[Shape, ...]:
        """The shapes, moved."""
        return tuple(shape.moved(x, y) for shape in self.shapes)

    def ports_at(self, x: float, y: float) -> tuple[Point, ...]:
        return tuple((x + px, y + py) for px, py in self.ports)


def _depth(shape: Shape) -> int:
    match shape:
        case Box():
            return 0 if shape.frame else 2
        case Polyline():
            return 1 if shape.behind else 2
        case Mark() | Cells():
            return 3
        case TextLine():
            return 4


def written(x: float, top: float, lines: Iterable[str], size: float, **style: object) -> list[TextLine]:
    """Lines of text below one another, the first one below `top`."""
    step = size * LINE
    return [TextLine(x, top - step * (i + 0.5), line, size, **style) for i, line in enumerate(lines)]  # type: ignore[arg-type]


def told_apart(row: str, y: float, size: float) -> list[TextLine]:
    """The facts of a line, each in words of its own, so that each can be marked."""
    shapes, x, between = list[TextLine](), 0.0, 1.45 * size
    for fact in row.split(" · "):
        if x:
            shapes.append(TextLine(x - between / 2, y, "·", size, faint=True))
        shapes.append(TextLine(x, y, fact, size, align="left", faint=True, about="fact"))
        x += width_of(fact, size) + between
    return shapes
