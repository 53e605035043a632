"""The compact form, as wide as a column of a paper: boxes in words, kinds of layers that take turns one above the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from anyformer.parts.sketch import Sketch
from anyformer.pictures.diagram.block import Side, rail
from anyformer.pictures.diagram.compact_block import LEFT, NAME, RAIL, RIGHT, SPACE, TEXT, BlockFrame, boxed, frame
from anyformer.pictures.diagram.look import ColumnLook, Item, Look
from anyformer.pictures.diagram.section import Series, numbered
from anyformer.pictures.diagram.shapes import Box, Cells, Drawing, Mark, Point, Polyline, Shape, TextLine, told_apart, written
from anyformer.pictures.diagram.text import LINE, UNBROKEN, width_of, wrapped

EDGE = 1.6
WIDE = 237.6 - 2 * EDGE
"""The picture is 3.3 inches wide, as is a column of a paper that has two."""
GUTTER, TITLE = 14.0, 9.0
INDENT, OUT, FORK = 16.0, 9.0, 6.0
"""Of layers by turns: from the side of the stream to the frames, from these to the other side, and where the ways part."""
STRIP = 6.0
TONES = {"rail": "table", "joined": "table", "added": "position", "beside": "position", "aside": "table", "inside": "table"}


def panels(looks: Sequence[Look]) -> list[Drawing]:
    """A panel per architecture."""
    return [_panel(look) for look in looks]


def _panel(look: Look) -> Drawing:
    """Columns side by side, the source's line between them, the title on top."""
    wide = (WIDE - GUTTER * (len(look.columns) - 1)) / len(look.columns)
    columns = [CompactRows(column, wide).drawn() for column in look.columns]
    tall = max([columns[-1].height, *(column.height + SPACE for column in columns[:-1])])
    shapes = [shape for i, column in enumerate(columns) for shape in column.at(i * (wide + GUTTER), 0)]
    for source, reader in pairwise(columns):
        start, bus, over = RAIL, wide + GUTTER / 2, source.height + SPACE
        ports = reader.ports_at(wide + GUTTER, 0)
        shapes.append(Polyline(((start, source.height), (start, over), (bus, over)), thick=True, behind=True))
        ends = [over, *(y for _, y in ports)]
        shapes.append(Polyline(((bus, max(ends)), (bus, min(ends))), thick=True, behind=True))
        shapes += [Polyline(((bus, y), (x, y)), arrow=True, thick=True, behind=True) for x, y in ports]
    title = wrapped(look.title, TITLE, WIDE, bold=True)
    facts = wrapped(" · ".join(fact.replace(" ", UNBROKEN) for fact in look.facts), TEXT, WIDE - 8)
    head = len(title) * TITLE * LINE
    top = tall + SPACE + head + len(facts) * TEXT * LINE
    shapes += written(0, top, title, TITLE, bold=True, align="left")
    for i, row in enumerate(facts):
        shapes += told_apart(row.removesuffix(" ·").removeprefix("· "), top - head - (i + 0.5) * TEXT * LINE, TEXT)
    return Drawing(WIDE, top, tuple(shapes))


class CompactRows:
    """The rows of a column, put one above the other; the stream is on its left, or on its right in one that reads another."""

    def __init__(self, look: ColumnLook, width: float) -> None:
        self.look, self.width, self.side = look, width, Side(width, look.reads)
        self.y, self.shapes, self.ports, self.readable = 0.0, list[Shape](), list[Point](), list[float]()
        self.shown: dict[Sketch, str] = {}

    def drawn(self) -> Drawing:
        """The whole column."""
        if self.look.enters:
            self.label(self.look.enters)
        self.items(self.look.inputs, "input")
        for number in range(len(self.look.sections)):
            self.up(SPACE + 2)
            self.section(number)
        self.items(self.look.outputs, "output")
        if self.look.leaves:
            self.up(SPACE + 2)
            self.label(self.look.leaves)
        return Drawing(self.width, self.y, tuple(self.shapes), tuple(self.ports))

    def up(self, by: float, *, arrow: bool = True) -> None:
        """Draw the stream further up."""
        self.shapes += rail(self.side.x(RAIL), self.y, self.y + by, 1, arrow=arrow)
        self.y += by

    def label(self, text: str) -> None:
        """Put words at the end of the stream."""
        wide = width_of(text, TEXT)
        x = self.side.box(0, wide) + wide / 2
        self.shapes.append(TextLine(x, self.y + TEXT * LINE / 2, text, TEXT, about=f"{self.look.name}/label"))
        self.y += TEXT * LINE + 2

    def items(self, items: Sequence[Item], end: str) -> None:
        """Put boxes on the stream, added to it, read by all layers, or reading it."""
        for number, item in enumerate(items):
            about = f"{self.look.name}/{end} {number}"
            on_rail = item.place in ("rail", "joined")
            below = self.y
            if self.y:
                self.up(SPACE + 2, arrow=on_rail)
            left, right = (0.0, 0.0) if on_rail else (LEFT, RIGHT + 3 if item.place == "beside" else 0.0)
            wide = self.width - left - right
            x = self.side.box(left, wide)
            made = boxed(x, self.y, wide, item.sketch.title, item.sketch.facts, TONES[item.place], about)
            (box, *_) = made
            assert isinstance(box, Box)
            self.shapes += made
            middle = self.y + box.height / 2
            if item.place == "joined":
                self.ports.append((x, middle))
            elif item.place == "added":
                self.shapes += [
                    self.side.line((left, middle), (RAIL + 4, middle), arrow=True),
                    Mark(self.side.x(RAIL), middle, "+"),
                ]
            elif item.place == "aside":
                self.shapes += [self.side.line((RAIL, middle), (left, middle), arrow=True), Mark(self.side.x(RAIL), middle)]
            elif item.place == "inside":
                self.shapes.append(self.side.line((left + 10, below), (left + 10, self.y), arrow=True))
            elif item.place == "beside":
                self.readable.append(middle)
            if on_rail:
                self.y += box.height
            else:
                self.up(box.height, arrow=False)

    def section(self, number: int) -> None:
        """Put a frame, or a group of them where kinds take turns; what all layers read enters the first section."""
        edge = self.width - 3
        for middle in self.readable:
            self.shapes.append(self.side.line((self.width - RIGHT - 3, middle), (edge, middle), (edge, self.y), arrow=True))
        self.readable = []
        section = self.look.sections[number]
        shade = sum(len(earlier.kinds) for earlier in self.look.sections[:number])
        at = BlockFrame(self.width, self.look.reads, self.look.lanes, f"{self.look.name}/{number}")
        drawing = self.by_turns(section, shade, at) if len(section.kinds) > 1 else self.one(section, shade, at)
        self.shapes += drawing.at(0, self.y)
        self.ports += drawing.ports_at(0, self.y)
        self.y += drawing.height

    def one(self, section: Series, shade: int, at: BlockFrame) -> Drawing:
        """A frame with the count of its layers."""
        (kind,) = section.kinds
        several = len(self.look.sections) > 1
        shared = " (shared weights)" if kind.shared else ""
        named = f" · {numbered(section)} · {kind.name}" if several else ""
        drawing = frame(kind, f"× {len(section.layers)}{named}{shared}", shade if several else None, self.shown, at)
        self.remember(kind.name, [branch.sketch for step in kind.look for branch in step.branches])
        return drawing

    def remember(self, name: str, sketches: Sequence[Sketch]) -> None:
        """Say no more of these sublayers than where they were shown."""
        for sketch in sketches:
            self.shown.setdefault(sketch, f"as in {name}")

    def by_turns(self, section: Series, shade: int, at: BlockFrame) -> Drawing:
        """Frames above one another in one more; each layer takes one of the dashed ways through them."""
        side, inner = self.side, at.narrower(INDENT + OUT)
        y, shapes, ports = FORK, list[Shape](), list[Point]()
        exits, entry = [], INDENT + RAIL
        for i, kind in enumerate(section.kinds):
            shared = " (shared weights)" if kind.shared else ""
            drawing = frame(kind, f"{kind.name}{shared}", shade + i, self.shown, inner)
            self.remember(kind.name, [branch.sketch for step in kind.look for branch in step.branches])
            bottom, x = y + SPACE, side.box(INDENT, inner.width)
            shapes += [
                *drawing.at(x, bottom),
                side.line((RAIL, FORK), (RAIL, y), (entry, y), (entry, bottom), arrow=True, dashed=True),
            ]
            ports += drawing.ports_at(x, bottom)
            y = bottom + drawing.height + SPACE
            exits.append(y)
            y += SPACE
        edge, join = at.width - OUT / 2, exits[-1]
        for end in exits:
            shapes.append(side.line((entry, end - SPACE), (entry, end), (edge, end), dashed=True))
        shapes.append(side.line((edge, exits[0]), (edge, join), dashed=True))
        shapes.append(side.line((entry, join), (RAIL, join), dashed=True))
        shapes += [Mark(side.x(RAIL), FORK), Mark(side.x(RAIL), join)]
        wide = at.width - LEFT - RIGHT
        title = wrapped(f"{numbered(section)} by turns: {section.pattern}", NAME, wide, bold=True)
        left, y = side.box(LEFT, wide), join + SPACE
        shades = tuple(shade + kind for kind in section.layers)
        shapes.append(Cells(left, y, wide, STRIP, 1, shades, "strip", f"{at.about}/strip"))
        top = y + STRIP + 3 + len(title) * NAME * LINE
        shapes += written(left, top, title, NAME, bold=True, align="left", about=f"{at.about}/pattern")
        height = top + 2
        through = [*rail(side.x(RAIL), 0, FORK, at.lanes), *rail(side.x(RAIL), join, height, at.lanes)]
        return Drawing(at.width, height, (Box(0, 0, at.width, height, "group"), *through, *shapes), tuple(ports))
