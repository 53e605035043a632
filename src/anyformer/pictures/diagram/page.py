"""Whole pictures: an architecture's columns with the source between them, and several architectures side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from anyformer.pictures.diagram import compact
from anyformer.pictures.diagram.column import PlacedColumn, heights_of, tower, widest
from anyformer.pictures.diagram.look import ColumnLook, Look
from anyformer.pictures.diagram.section import Extents, shortened
from anyformer.pictures.diagram.shapes import Box, Cells, Drawing, Extent, Mark, Polyline, Shape, TextLine, told_apart, written
from anyformer.pictures.diagram.text import LINE, wrapped

GUTTER = 34.0
"""Space between the columns of an architecture."""
HALO = 1.5
"""How far the colour of differences goes beyond words."""
OVER = 12.0
"""Height of a source's line above its column."""
TITLE, LABEL, TEXT = 13.0, 7.6, 7.0


@dataclass(frozen=True)
class PageForm:
    """A form of pictures: its panels, the space around the page and between architectures."""

    panels: Callable[[Sequence[Look]], list[Drawing]]
    edge: float
    between: float


def page(looks: Sequence[Look], form: PageForm) -> Drawing:
    """One panel per architecture, side by side; differences between them are marked."""
    panels = form.panels(looks)
    if len(panels) > 1:
        panels = marked(panels)
    top = max(panel.height for panel in panels)
    shapes, x = list[Shape](), form.edge
    legend = [shape.moved(form.edge, form.edge) for shape in _legend(panels)]
    bottom = form.edge + (16.0 if legend else 0.0)
    for panel in panels:
        shapes += panel.at(x, bottom)
        x += panel.width + form.between
    width = x - form.between + form.edge
    return Drawing(width, bottom + top + form.edge, (*shapes, *legend))


def _legend(panels: Sequence[Drawing]) -> list[Shape]:
    """What the colour of differences means; in words alone where nothing has it."""
    if len(panels) < 2:
        return []
    if not any(shape.differs for panel in panels for shape in panel.shapes if isinstance(shape, Box | TextLine | Cells)):
        return [TextLine(0, 4.5, "nothing differs", TEXT, align="left")]
    return [Box(0, 0, 16, 9, "differs"), TextLine(22, 4.5, "what differs", TEXT, align="left")]


def panels_in_full(looks: Sequence[Look]) -> list[Drawing]:
    """Panels with the cells of every sublayer; what is equal stands at the same height."""
    looks = [replace(look, columns=tuple(_short(column) for column in look.columns)) for look in looks]
    every = [column for look in looks for column in look.columns]
    width = widest(every)
    heights: dict[str, list[tuple[float, ...]]] = {}
    for column in every:
        for about, own in heights_of(column, width).items():
            heights.setdefault(about, []).extend(own)
    sizes = Extents(width, {about: _most(own) for about, own in heights.items()})
    towers = [[tower(column, sizes) for column in look.columns] for look in looks]
    # Sections with the same number begin at the same height, so that equal parts stand beside each other.
    for number in range(max(len(column.sections) for column in every) if len(looks) > 1 else 0):
        starts = _starts(towers, number)
        towers = [[tower(column, sizes, starts) for column in look.columns] for look in looks]
    tall = max(map(_body, towers))
    return [_panel(look, row, tall) for look, row in zip(looks, towers, strict=True)]


def _short(column: ColumnLook) -> ColumnLook:
    return replace(column, sections=shortened(column.sections))


def _most(heights: list[tuple[float, ...]]) -> tuple[float, ...]:
    """The greatest height of each step where all blocks have as many steps, else none: each block keeps its own."""
    if len(set(map(len, heights))) > 1:
        return ()
    return tuple(map(max, zip(*heights, strict=True)))


def _starts(towers: Sequence[Sequence[PlacedColumn]], number: int) -> tuple[float, ...]:
    last = [row[-1].bottoms[: number + 1] for row in towers]
    return tuple(max(starts) for starts in zip_longest(*last, fillvalue=0.0))


def _body(towers: Sequence[PlacedColumn]) -> float:
    *sources, last = towers
    return max([last.drawing.height, *(source.drawing.height + OVER + 4 for source in sources)])


def _panel(look: Look, towers: Sequence[PlacedColumn], tall: float) -> Drawing:
    """Columns side by side, the source's line between them, the title on top."""
    shapes, x = list[Shape](), 0.0
    for i, column in enumerate(towers):
        shapes += column.drawing.at(x, 0)
        end = x + column.drawing.width + GUTTER
        if i + 1 < len(towers):
            shapes += _source(column, x, towers[i + 1], end)
        x = end
    width = max(x - GUTTER, 190.0)
    title = wrapped(look.title, TITLE, width, bold=True)
    rows = wrapped(" · ".join(look.facts), LABEL, width)
    head = len(title) * TITLE * LINE + len(rows) * LABEL * LINE
    top = tall + 14 + head
    shapes += written(0, top, title, TITLE, bold=True, align="left")
    for i, row in enumerate(rows):
        shapes += told_apart(row, top - len(title) * TITLE * LINE - (i + 0.5) * LABEL * LINE, LABEL)
    return Drawing(width, top, tuple(shapes))


def _source(tower: PlacedColumn, x: float, reader: PlacedColumn, at: float) -> list[Shape]:
    """The line from the top of a column down between both columns to every place that reads it."""
    start, top = x + tower.rail, tower.drawing.height
    bus, over = at - GUTTER / 2, top + OVER
    shapes: list[Shape] = []
    ports = reader.drawing.ports_at(at, 0)
    ends = [over, *(y for _, y in ports)]
    shapes.append(Polyline(((start, top), (start, over), (bus, over)), thick=True, behind=True))
    shapes.append(Polyline(((bus, max(ends)), (bus, min(ends))), thick=True, behind=True))
    for port in ports:
        shapes.append(Polyline(((bus, port[1]), port), arrow=True, thick=True, behind=True))
        shapes.append(Mark(bus, port[1]))
    return shapes


def marked(panels: Sequence[Drawing]) -> list[Drawing]:
    """Panels with marks on boxes and words that some other panel does not have in the same place."""
    texts = [{(shape.about, shape.says) for shape in panel.shapes if isinstance(shape, Compared)} for panel in panels]
    return [
        replace(panel, shapes=_coloured([_marked(shape, texts[:i] + texts[i + 1 :]) for shape in panel.shapes]))
        for i, panel in enumerate(panels)
    ]


Compared = Box | TextLine | Cells
Said = tuple[str, str | tuple[int, ...]]


def _marked(shape: Shape, others: Sequence[set[Said]]) -> Shape:
    if not isinstance(shape, Compared) or not shape.about or not shape.says:
        return shape
    return replace(shape, differs=any((shape.about, shape.says) not in texts for texts in others))


def _coloured(shapes: Sequence[Shape]) -> tuple[Shape, ...]:
    """The shapes with the colour of differences behind words and strips that stand in no box of this colour."""
    boxes = [shape.extent for shape in shapes if isinstance(shape, Box) and shape.differs and shape.filled]
    behind = [_behind(shape) for shape in shapes if isinstance(shape, TextLine | Cells) and shape.differs]
    return *shapes, *(box for box in behind if not any(_inside(box.extent, outer) for outer in boxes))


def _behind(shape: TextLine | Cells) -> Box:
    left, bottom, right, top = shape.extent
    return Box(left - HALO, bottom, right - left + 2 * HALO, top - bottom, "differs")


def _inside(extent: Extent, outer: Extent) -> bool:
    return all(a >= b for a, b in zip(extent[:2], outer[:2], strict=True)) and all(
        a <= b for a, b in zip(extent[2:], outer[2:], strict=True)
    )


FULL, COMPACT = PageForm(panels_in_full, edge=16.0, between=40.0), PageForm(compact.panels, edge=compact.EDGE, between=14.0)
