"""What a picture is made of, in points (1/72 inch), y upwards: boxes, words, lines, marks, ticks and strips."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from anyformer.pictures.diagram.text import LINE, width_of

Align = Literal["left", "center", "right"]
Point = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A rectangle with its lower left corner; `about` and `says`: what it is of, which is held against other pictures."""

    x: float
    y: float
    width: float
    height: float
    tone: str
    about: str = ""
    says: str = ""
    differs: bool = False

    @property
    def frame(self) -> bool:
        """Whether it stands behind all that is in it, lines too."""
        return self.tone in ("frame", "group")

    def moved(self, dx: float, dy: float) -> Box:
        return replace(self, x=self.x + dx, y=self.y + dy)

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, bottom, right, top."""
        return self.x, self.y, self.x + self.width, self.y + self.height


@dataclass(frozen=True)
class Words:
    """One line of text, centred on y."""

    x: float
    y: float
    says: str
    size: float
    bold: bool = False
    align: Align = "center"
    faint: bool = False
    about: str = ""
    differs: bool = False

    def moved(self, dx: float, dy: float) -> Words:
        return replace(self, x=self.x + dx, y=self.y + dy)

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, bottom, right, top."""
        width = width_of(self.says, self.size, self.bold)
        left = self.x - {"left": 0.0, "center": width / 2, "right": width}[self.align]
        return left, self.y - self.size * LINE / 2, left + width, self.y + self.size * LINE / 2


@dataclass(frozen=True)
class Line:
    """A line along points, with an arrow at its end or not; `dashed`: where a layer goes one way or another."""

    points: tuple[Point, ...]
    arrow: bool = False
    dashed: bool = False
    thick: bool = False
    behind: bool = False
    """Whether it passes behind sublayers, in front of the frames around them."""

    def moved(self, dx: float, dy: float) -> Line:
        return replace(self, points=tuple((x + dx, y + dy) for x, y in self.points))


@dataclass(frozen=True)
class Mark:
    """A small circle with a sign: where things are added or multiplied; without a sign a dot, where a branch leaves."""

    x: float
    y: float
    sign: str = ""

    def moved(self, dx: float, dy: float) -> Mark:
        return replace(self, x=self.x + dx, y=self.y + dy)


@dataclass(frozen=True)
class Cells:
    """Little squares in rows from the upper left; each has the number of its shade."""

    x: float
    y: float
    width: float
    height: float
    rows: int
    shades: tuple[int, ...]
    tone: str

    def moved(self, dx: float, dy: float) -> Cells:
        return replace(self, x=self.x + dx, y=self.y + dy)

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, bottom, right, top."""
        return self.x, self.y, self.x + self.width, self.y + self.height


Shape = Box | Words | Line | Mark | Cells


@dataclass(frozen=True)
class Drawing:
    """Shapes within (0, 0) and (width, height)."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    ports: tuple[Point, ...] = ()
    """Where the source enters."""

    def at(self, x: float, y: float) -> tuple[Shape, ...]:
        """The shapes, moved."""
        return tuple(shape.moved(x, y) for shape in self.shapes)

    def ports_at(self, x: float, y: float) -> tuple[Point, ...]:
        return tuple((x + px, y + py) for px, py in self.ports)


def written(x: float, top: float, lines: Iterable[str], size: float, **style: object) -> list[Words]:
    """Lines of text below each other, the first one below `top`."""
    step = size * LINE
    return [Words(x, top - step * (i + 0.5), line, size, **style) for i, line in enumerate(lines)]  # type: ignore[arg-type]
