"""A stack as a column: input, sections in series with their brackets and strips, output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from anyformer.parts.sketch import Sketch
from anyformer.pictures.diagram.block import LEFT, RAIL, block, rail, step_heights
from anyformer.pictures.diagram.flow import PAD, SMALL, least_width
from anyformer.pictures.diagram.kinds import Section
from anyformer.pictures.diagram.look import BlockLook, ColumnLook, Item
from anyformer.pictures.diagram.shapes import Box, Cells, Drawing, Line, Mark, Point, Shape, Words, written
from anyformer.pictures.diagram.text import LINE, width_of, wrapped

MARGIN, APART, SPACE, STRIP = 58.0, 12.0, 12.0, 8.0
"""Beside the frame for bracket and strip, between frames, between rows, width of a strip."""
LABEL, TIMES = 7.2, 10.5
"""Sizes of text."""
RAIL_BOX, BESIDE = 190.0, 132.0
"""Widths of boxes on the stream and beside it."""
Series = Section[BlockLook]


@dataclass(frozen=True)
class Sizes:
    """What is as large everywhere in a picture: sublayers; and, by stack and section, the steps of blocks side by side."""

    column: float
    heights: Mapping[str, tuple[float, ...]]


def shortened(series: tuple[Series, ...]) -> tuple[Series, ...]:
    """What an earlier section shows already is named and not shown again, but among layers that take turns."""
    seen: dict[Sketch, str] = {}
    made = []
    for section in series:
        where = _numbers(section)
        kinds = section.kinds
        if len(kinds) == 1:
            kinds = (replace(kinds[0], look=_shortened(kinds[0].look, seen)),)
        seen |= {
            branch.sketch: f"as in {where}"
            for kind in section.kinds
            for step in kind.look
            for branch in step.branches
            if branch.sketch not in seen
        }
        made.append(replace(section, kinds=kinds))
    return tuple(made)


def _shortened(look: BlockLook, seen: Mapping[Sketch, str]) -> BlockLook:
    def short(sketch: Sketch) -> Sketch:
        return Sketch(sketch.title, (seen[sketch],)) if sketch in seen else sketch

    return tuple(
        replace(step, branches=tuple(replace(branch, sketch=short(branch.sketch)) for branch in step.branches)) for step in look
    )


def _numbers(section: Series) -> str:
    count = len(section.layers)
    return f"layer {section.first}" if count == 1 else f"layers {section.first} – {section.first + count - 1}"


def widest(columns: list[ColumnLook]) -> float:
    """The width that every sublayer of these columns fits in."""
    sketches = [branch.sketch for column in columns for branch in _branches(column)]
    return max([188.0, *map(least_width, sketches)])


def heights_of(column: ColumnLook, width: float) -> dict[str, list[tuple[float, ...]]]:
    """By stack and section, how tall the steps of each kind are."""
    return {
        f"{column.name}/{i}": [step_heights(kind.look, width) for kind in section.kinds]
        for i, section in enumerate(column.sections)
    }


def _branches(column: ColumnLook):  # type: ignore[no-untyped-def]
    for section in column.sections:
        for kind in section.kinds:
            for step in kind.look:
                yield from step.branches


@dataclass(frozen=True)
class Tower:
    """A column with where its stream leaves it."""

    drawing: Drawing
    rail: float
    bottoms: tuple[float, ...] = ()
    """Where its sections begin."""


def tower(look: ColumnLook, sizes: Sizes, starts: tuple[float, ...] = ()) -> Tower:
    """The column; `starts`: the least heights at which its sections begin, so that those side by side begin alike."""
    drawn = [_section(section, look, sizes, i) for i, section in enumerate(look.sections)]
    mirrored, margin = look.reads, MARGIN if drawn else 0.0
    left, right = (0.0, margin) if mirrored else (margin, 0.0)
    needs = {"rail": RAIL_BOX + 6, "joined": RAIL_BOX + 6, "added": RAIL + 30 + BESIDE, "beside": RAIL + 38 + RAIL_BOX}
    inside = max([each.width for each in drawn] + [needs[item.place] for item in look.inputs])
    width = left + inside + right
    x = width - right - RAIL if mirrored else left + RAIL
    place = _Rows(look, x, mirrored)
    place.inputs()
    bottoms, ports = [], list(place.ports)
    for i, each in enumerate(drawn):
        place.up(max(place.y + SPACE, starts[i] if i < len(starts) else 0.0))
        at = x - each.rail
        bottoms.append(place.y)
        place.shapes += each.drawing.at(at, place.y)
        ports += each.drawing.ports_at(at, place.y)
        place.y += each.drawing.height
    place.outputs()
    return Tower(Drawing(width, place.y, tuple(place.shapes), tuple(ports)), x, tuple(bottoms))


class _Rows:
    """Boxes on the stream, from bottom to top."""

    def __init__(self, look: ColumnLook, x: float, mirrored: bool) -> None:
        self.look, self.x, self.sign = look, x, -1 if mirrored else 1
        self.y, self.shapes, self.ports = 0.0, list[Shape](), list[Point]()

    def left(self, offset: float, width: float) -> float:
        """The left of a box that begins so far from the stream."""
        return self.x + offset if self.sign > 0 else self.x - offset - width

    def up(self, y: float, *, arrow: bool = True) -> None:
        """The stream goes up to y."""
        self.shapes += rail(self.x, self.y, y, self.lanes, arrow=arrow)
        self.y = y

    @property
    def lanes(self) -> int:
        return 1

    def inputs(self) -> None:
        """Label, boxes on the stream, what is added to it, notes beside it."""
        if self.look.enters:
            self.label(self.look.enters)
        beside = []
        for number, item in enumerate(self.look.inputs):
            about = f"{self.look.name}/input {item.place} {number}"
            if item.place == "beside":
                beside.append(item)
            elif item.place == "added":
                self.added(item, f"{self.look.name}/added")
            else:
                self.on_rail(item, about)
        for item in beside:
            y = self.y
            self.up(y + 10, arrow=False)
            height = self.note(item, self.left(18, RAIL_BOX + 20), self.y, RAIL_BOX + 20, f"{self.look.name}/beside")
            self.up(self.y + height, arrow=False)

    def outputs(self) -> None:
        for number, item in enumerate(self.look.outputs):
            self.on_rail(item, f"{self.look.name}/output {number}")
        if self.look.leaves:
            self.up(self.y + SPACE)
            self.label(self.look.leaves)

    def label(self, text: str) -> None:
        low = LABEL * LINE
        wide = width_of(text, LABEL)
        x = self.left(-14, wide) + wide / 2
        self.shapes.append(Words(x, self.y + low / 2 + 1, text, LABEL, about=f"{self.look.name}/label"))
        self.y += low + 3

    def on_rail(self, item: Item, about: str) -> None:
        if self.y:
            self.up(self.y + SPACE)
        x = self.left(-RAIL + 6, RAIL_BOX)
        if item.place == "joined":
            self.ports.append((x, self.y + 6))
        self.y += self.note(item, x, self.y, RAIL_BOX, about)

    def note(self, item: Item, x: float, y: float, width: float, about: str) -> float:
        """A box with a title and facts; gives its height."""
        title = wrapped(item.sketch.title, LABEL, width - 2 * PAD, bold=True)
        facts = wrapped(" · ".join(item.sketch.facts), SMALL, width - 2 * PAD) if item.sketch.facts else []
        height = len(title) * LABEL * LINE + len(facts) * SMALL * LINE + PAD
        tone = {"added": "position", "beside": "position"}.get(item.place, "table")
        self.shapes.append(Box(x, y, width, height, tone, about, item.sketch.title))
        self.shapes += written(x + width / 2, y + height - PAD / 2, title, LABEL, bold=True, about=about)
        self.shapes += written(x + width / 2, y + height - PAD / 2 - len(title) * LABEL * LINE, facts, SMALL, about=about)
        return height

    def added(self, item: Item, about: str) -> None:
        """A plus on the stream and a box beside it."""
        self.up(self.y + SPACE + 10, arrow=False)
        x = self.left(30, BESIDE)
        height = self.note(item, x, self.y - 11, BESIDE, about)
        middle = self.y - 11 + height / 2
        self.shapes.append(Line(((self.x + self.sign * 30, middle), (self.x + self.sign * 4, middle)), arrow=True))
        self.shapes.append(Mark(self.x, middle, "+"))
        self.up(max(self.y, self.y - 11 + height), arrow=False)


@dataclass(frozen=True)
class _Drawn:
    drawing: Drawing
    rail: float
    width: float


def _section(section: Series, look: ColumnLook, sizes: Sizes, number: int) -> _Drawn:
    """Frames side by side, each with its stream; of several kinds, a frame around them and a way through each."""
    about = f"{look.name}/{number}"
    several = len(section.kinds) > 1
    heights = sizes.heights.get(about, ())
    drawn = []
    for i, kind in enumerate(section.kinds):
        own = step_heights(kind.look, sizes.column)
        least = heights if len(heights) == len(own) else own
        shared = " (shared weights)" if kind.shared else ""
        header = f"{kind.name}{shared}" if several or len(look.sections) > 1 or shared else ""
        kind_number = i if several else number
        drawn.append(
            block(kind.look, sizes.column, least, f"{about}/{i}", header=header, kind=kind_number, mirrored=look.reads)
        )
    top = max(each.height for each in drawn)
    shapes, ports, x = list[Shape](), list[Point](), 0.0
    rails = []
    bottom = 20.0 if several else 0.0
    inset = 8.0 if several else 0.0
    x = inset
    for each in drawn:
        own = x + (each.width - RAIL if look.reads else RAIL)
        rails.append(own)
        shapes.append(Box(x, bottom, each.width, top, "frame"))
        shapes += rail(own, bottom, bottom + top, look.lanes)
        shapes += each.at(x, bottom)
        ports += each.ports_at(x, bottom)
        x += each.width + APART
    width = x - APART + inset
    at = rails[-1] if look.reads else rails[0]
    height = top
    if several:
        title = f"{len(section.layers)} layers by turns: {section.pattern}"
        lines = wrapped(title, LABEL, width - 2 * PAD - 2 * LEFT, bold=True)
        height = bottom + top + 14 + len(lines) * LABEL * LINE + PAD
        shapes.insert(0, Box(0, 0, width, height, "group"))
        left = PAD + LEFT if not look.reads else PAD + 4
        shapes += written(left, height - PAD, lines, LABEL, bold=True, align="left", about=f"{about}/pattern")
        over = bottom + top + 9
        shapes += rail(at, 0, 7, look.lanes) + rail(at, over, height, look.lanes)
        for other in rails:
            shapes.append(Line(((at, 7), (other, 7), (other, bottom)), arrow=True, dashed=True))
            shapes.append(Line(((other, bottom + top), (other, over), (at, over)), dashed=True))
        shapes += [Mark(at, 7), Mark(at, over)]
    drawing = Drawing(width, height, (*shapes, *_bracket(section, width, height, look, several=several)), tuple(ports))
    return _Drawn(drawing, at, width)


def _bracket(section: Series, width: float, height: float, look: ColumnLook, *, several: bool) -> list[Shape]:
    """How often it repeats, which layers these are, and of kinds by turns a strip with a cell for each layer."""
    sign, edge = (1, width) if look.reads else (-1, 0.0)
    x = edge + sign * 5
    shapes: list[Shape] = [Line(((x, 0), (x + sign * 4, 0), (x + sign * 4, height), (x, height)))]
    x += sign * 8
    count = len(section.layers)
    if several:
        left = x if sign > 0 else x - STRIP
        shapes.append(Cells(left, 0, STRIP, height, count, tuple(reversed(section.layers)), "strip"))
        x += sign * (STRIP + 3)
    align = "left" if sign > 0 else "right"
    middle, about = height / 2, f"{look.name}/bracket {section.first}"
    shapes.append(Words(x, middle + 2, f"× {count}", TIMES, bold=True, align=align, about=about))
    if several:
        shapes.append(Words(x, 4, str(section.first), SMALL, align=align, faint=True))
        shapes.append(Words(x, height - 4, str(section.first + count - 1), SMALL, align=align, faint=True))
    elif len(look.sections) > 1:
        last = section.first + count - 1
        numbers = str(section.first) if count == 1 else f"{section.first} – {last}"
        shapes.append(Words(x, middle - 10, numbers, SMALL, align=align, faint=True))
    return shapes
