"""A stack as a column: input, sections in series, output, on one stream from bottom to top."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from anyformer.pictures.diagram.block import RAIL, rail, step_heights
from anyformer.pictures.diagram.flow import PAD, SMALL, least_width
from anyformer.pictures.diagram.look import BranchLook, ColumnLook, Item
from anyformer.pictures.diagram.section import LABEL, MARGIN, Extents, placed
from anyformer.pictures.diagram.shapes import Box, Drawing, Mark, Point, Polyline, Shape, TextLine, written
from anyformer.pictures.diagram.text import LINE, width_of, wrapped

SPACE, OFF = 12.0, 30.0
"""Spaces between rows, and between the stream and boxes added to it."""
ON_RAIL, ADDED, BESIDE = 190.0, 132.0, 210.0
"""Widths of boxes on the stream, added to it, and beside it."""
NARROWEST = 188.0
"""Least width of a sublayer."""
TONES = {"rail": "table", "joined": "table", "added": "position", "beside": "position", "aside": "table", "inside": "table"}
BUS, ENTRY = 12.0, 6.0
"""Width for the line from boxes beside the stream to all layers, and how far above the bottom of a frame it enters it."""
NEEDS = {
    "rail": ON_RAIL + 6, "joined": ON_RAIL + 6, "added": RAIL + OFF + ADDED, "beside": RAIL + 18 + BESIDE,
    "aside": RAIL + OFF + BESIDE, "inside": RAIL + OFF + BESIDE,
}  # fmt: skip
"""Width that items take from the left of the frame."""


@dataclass(frozen=True)
class PlacedColumn:
    """The drawing of a column, the place of its stream, and the heights at which its sections begin."""

    drawing: Drawing
    rail: float
    bottoms: tuple[float, ...] = ()


def widest(columns: Iterable[ColumnLook]) -> float:
    """The width into which every sublayer of these columns fits."""
    return max([NARROWEST, *(least_width(branch.sketch) for column in columns for branch in _branches(column))])


def heights_of(column: ColumnLook, width: float) -> dict[str, list[tuple[float, ...]]]:
    """Heights of the steps of each kind, by stack and section."""
    return {
        f"{column.name}/{i}": [step_heights(kind.look, width) for kind in section.kinds]
        for i, section in enumerate(column.sections)
    }


def _branches(column: ColumnLook) -> Iterator[BranchLook]:
    for section in column.sections:
        for kind in section.kinds:
            for step in kind.look:
                yield from step.branches


def tower(look: ColumnLook, sizes: Extents, starts: tuple[float, ...] = ()) -> PlacedColumn:
    """A column; `starts`: the least heights at which its sections begin, so that sections side by side begin alike."""
    sections = [placed(look, number, sizes) for number in range(len(look.sections))]
    margin = MARGIN if sections else 0.0
    read = BUS if any(item.place == "beside" for item in look.inputs) else 0.0
    inside = max(
        [section.drawing.width for section in sections] + [NEEDS[item.place] for item in (*look.inputs, *look.outputs)]
    )
    width = inside + margin + read
    rows = ColumnRows(look, width - margin - RAIL if look.reads else margin + RAIL)
    rows.inputs()
    bottoms = []
    for i, section in enumerate(sections):
        rows.up(max(rows.y + SPACE, starts[i] if i < len(starts) else 0.0))
        bottoms.append(rows.y)
        rows.put(section.drawing, rows.x - section.rail)
    rows.read_by_layers(inside - RAIL + BUS - 4, [section.drawing.width - RAIL for section in sections], bottoms)
    rows.outputs()
    return PlacedColumn(Drawing(width, rows.y, tuple(rows.shapes), tuple(rows.ports)), rows.x, tuple(bottoms))


class ColumnRows:
    """The rows of a column with its stream at `x`, put one above the other; boxes are to the right of the stream, or to its
    left in a column that reads the column before it."""

    def __init__(self, look: ColumnLook, x: float) -> None:
        self.look, self.x, self.sign = look, x, -1 if look.reads else 1
        self.y, self.shapes, self.ports, self.readable = 0.0, list[Shape](), list[Point](), list[Point]()

    def left(self, offset: float, width: float) -> float:
        """The left of a box at a distance from the stream."""
        return self.x + offset if self.sign > 0 else self.x - offset - width

    def up(self, y: float, *, arrow: bool = True) -> None:
        """Draw the stream up to y."""
        self.shapes += rail(self.x, self.y, y, 1, arrow=arrow)
        self.y = y

    def put(self, drawing: Drawing, x: float) -> None:
        """Put a drawing through which the stream goes."""
        self.shapes += drawing.at(x, self.y)
        self.ports += drawing.ports_at(x, self.y)
        self.y += drawing.height

    def inputs(self) -> None:
        """Put the label, boxes on the stream and added to it, and notes beside it."""
        if self.look.enters:
            self.label(self.look.enters)
        draw = {"rail": self.on_rail, "joined": self.on_rail, "added": self.added, "beside": self.beside}
        for number, item in enumerate(self.look.inputs):
            draw[item.place](item, f"{self.look.name}/{item.place} {number * (item.place == 'rail')}")

    def outputs(self) -> None:
        """Put boxes on the stream and the label of the output."""
        draw = {"rail": self.on_rail, "aside": self.aside, "inside": self.inside}
        for number, item in enumerate(self.look.outputs):
            draw[item.place](item, f"{self.look.name}/output {number}")
        if self.look.leaves:
            self.up(self.y + SPACE)
            self.label(self.look.leaves)

    def label(self, text: str) -> None:
        """Put words at the end of the stream."""
        low, wide = LABEL * LINE, width_of(text, LABEL)
        x = self.left(-14, wide) + wide / 2
        self.shapes.append(TextLine(x, self.y + low / 2 + 1, text, LABEL, about=f"{self.look.name}/label"))
        self.y += low + 3

    def on_rail(self, item: Item, about: str) -> None:
        """Put a box through which the stream goes; a source that joins enters at its side."""
        if self.y:
            self.up(self.y + SPACE)
        x = self.left(-RAIL + 6, ON_RAIL)
        if item.place == "joined":
            self.ports.append((x, self.y + 6))
        self.y += self.note(item, x, self.y, ON_RAIL, about)

    def added(self, item: Item, about: str) -> None:
        """Put a plus on the stream and the box that is added beside it."""
        bottom = self.y + SPACE
        height = self.note(item, self.left(OFF, ADDED), bottom, ADDED, about)
        middle = bottom + height / 2
        self.shapes.append(Polyline(((self.x + self.sign * OFF, middle), (self.x + self.sign * 4, middle)), arrow=True))
        self.shapes.append(Mark(self.x, middle, "+"))
        self.up(bottom + height, arrow=False)

    def beside(self, item: Item, about: str) -> None:
        """Put a box that all layers read beside the stream."""
        bottom = self.y + SPACE
        height = self.note(item, self.left(18, BESIDE), bottom, BESIDE, about)
        self.readable.append((self.x + self.sign * (18 + BESIDE), bottom + height / 2))
        self.up(bottom + height, arrow=False)

    def read_by_layers(self, far: float, edges: list[float], bottoms: list[float]) -> None:
        """Draw lines from boxes beside the stream to one that rises at a distance from it, and from there into all layers."""
        if not self.readable:
            return
        bus = self.x + self.sign * far
        for x, y in self.readable:
            self.shapes.append(Polyline(((x, y), (bus, y), (bus, bottoms[-1] + ENTRY))))
        for edge, bottom in zip(edges, bottoms, strict=True):
            y = bottom + ENTRY
            self.shapes.append(Polyline(((bus, y), (self.x + self.sign * edge, y)), arrow=True))

    def aside(self, item: Item, about: str) -> None:
        """Put a box beside the stream that reads it."""
        bottom = self.y + SPACE
        height = self.note(item, self.left(OFF, BESIDE), bottom, BESIDE, about)
        middle = bottom + height / 2
        self.shapes.append(Polyline(((self.x, middle), (self.x + self.sign * OFF, middle)), arrow=True))
        self.shapes.append(Mark(self.x, middle))
        self.up(bottom + height, arrow=False)

    def inside(self, item: Item, about: str) -> None:
        """Put a box beside the stream that reads what the last layer reads."""
        bottom, x = self.y + SPACE, self.x + self.sign * 2 * OFF
        self.shapes.append(Polyline(((x, self.y), (x, bottom)), arrow=True))
        self.up(bottom + self.note(item, self.left(OFF, BESIDE), bottom, BESIDE, about), arrow=False)

    def note(self, item: Item, x: float, y: float, width: float, about: str) -> float:
        """Put a box with a title and facts, and return its height."""
        title = wrapped(item.sketch.title, LABEL, width - 2 * PAD, bold=True)
        facts = wrapped(" · ".join(item.sketch.facts), SMALL, width - 2 * PAD) if item.sketch.facts else []
        head = len(title) * LABEL * LINE
        top = y + head + len(facts) * SMALL * LINE + PAD / 2
        self.shapes.append(Box(x, y, width, top + PAD / 2 - y, TONES[item.place], about, item.sketch.title, part=item.part))
        self.shapes += written(x + width / 2, top, title, LABEL, bold=True, about=about)
        self.shapes += written(x + width / 2, top - head, facts, SMALL, about=about)
        return top + PAD / 2 - y
