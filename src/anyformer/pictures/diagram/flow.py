"""The inside of a sublayer: cells in series and side by side, and the lines between them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from math import ceil

from anyformer.parts.sketch import Cell, Chain, Fan, Flow, SideInput, Sketch
from anyformer.pictures.diagram.shapes import Box, Cells, Drawing, Mark, Point, Polyline, Shape, TextLine, written
from anyformer.pictures.diagram.text import LINE, width_of, wrapped

SMALL, TITLE = 6.6, 8.0
"""Sizes of text."""
PAD, GAP, RISE, BEND = 4.0, 6.0, 7.0, 12.0
"""Spaces inside a cell, between columns, between rows joined by straight lines, and between rows joined by bent ones."""
UNBROKEN = 96.0
"""Shorter text is not wrapped."""
GOLDEN = 0.618034
TICK = (1.35, 6.0)
"""Least and greatest width of a tick."""
TICKS = 5.4
"""Height of the ticks of a cell, in one row or in two."""


@dataclass(frozen=True)
class PlacedFlow:
    """The drawing of a flow, and the places where lines enter it from below and leave it above."""

    drawing: Drawing
    enters: tuple[float, ...]
    leaves: tuple[float, ...]
    read: tuple[float, ...] = ()
    """Places where the source enters from below."""


def columns(flow: Flow) -> int:
    """The number of cells side by side."""
    match flow:
        case Cell():
            return 1
        case SideInput():
            return columns(flow.flow)
        case Chain():
            return max(map(columns, flow.items))
        case Fan():
            return sum(map(columns, flow.items))


def least(flow: Flow) -> float:
    """The least width of a flow."""
    match flow:
        case Cell():
            full = width_of(flow.text, SMALL)
            words = max(width_of(word, SMALL) for word in flow.text.split(" "))
            return 2 * PAD + (full if full <= UNBROKEN else max(words, UNBROKEN))
        case SideInput():
            return least(flow.flow)
        case Chain():
            return max(map(least, flow.items))
        case Fan():
            return sum(map(least, flow.items)) + GAP * (len(flow.items) - 1)


@singledispatch
def placed(flow: Flow, width: float, about: str) -> PlacedFlow:
    """A flow drawn at a width."""
    raise AssertionError(flow)


@placed.register
def _cell(flow: Cell, width: float, about: str) -> PlacedFlow:
    lines = wrapped(flow.text, SMALL, width - 2 * PAD)
    ticks = _ticks(flow, width - 2 * PAD)
    tall = max(ticks.height, TICKS) + 2.5 if ticks else 0.0
    height = len(lines) * SMALL * LINE + PAD + tall
    says = f"{flow.text} {flow.count} {flow.groups} {flow.used}"
    shapes: list[Shape] = [Box(0, 0, width, height, flow.tone, about, says)]
    shapes += written(width / 2, height - PAD / 2, lines, SMALL, about=about)
    if ticks:
        shapes.append(ticks.moved((width - ticks.width) / 2, PAD / 2 + 1 + (tall - 2.5 - ticks.height) / 2))
    return PlacedFlow(Drawing(width, height, tuple(shapes)), (width / 2,), (width / 2,))


@placed.register
def _given(flow: SideInput, width: float, about: str) -> PlacedFlow:
    inner = placed(flow.flow, width, about)
    return PlacedFlow(inner.drawing, (), inner.leaves, inner.enters if flow.source else ())


@placed.register
def _chain(flow: Chain, width: float, about: str) -> PlacedFlow:
    first, *others = (placed(item, width, about) for item in flow.items)
    shapes, y, leaves = list(first.drawing.shapes), first.drawing.height, first.leaves
    for item in others:
        straight = len(item.enters) == 1 or item.enters == leaves
        gap = RISE if straight else BEND
        targets = leaves if len(item.enters) == 1 else item.enters
        shapes += _rising(leaves, targets, y, y + gap)
        y += gap
        shapes += item.drawing.at(0, y)
        y, leaves = y + item.drawing.height, item.leaves
    return PlacedFlow(Drawing(width, y, tuple(shapes)), first.enters, leaves, first.read)


@placed.register
def _fan(flow: Fan, width: float, about: str) -> PlacedFlow:
    made = [placed(item, share, about) for item, share in zip(flow.items, _shares(flow, width), strict=True)]
    top = max(item.drawing.height for item in made)
    shapes: list[Shape] = []
    enters, leaves, read, x = [], [], [], 0.0
    for item in made:
        shapes += item.drawing.at(x, 0)
        enters += [x + at for at in item.enters]
        read += [x + at for at in item.read]
        leaves += [x + at for at in item.leaves]
        if item.drawing.height < top:
            shapes += [Polyline(((x + at, item.drawing.height), (x + at, top))) for at in item.leaves]
        x += item.drawing.width + GAP
    if not flow.join:
        return PlacedFlow(Drawing(width, top, tuple(shapes)), tuple(enters), tuple(leaves), tuple(read))
    middle, up = (min(leaves) + max(leaves)) / 2, top + RISE
    shapes += [Polyline(((at, top), (at, up), (middle, up))) for at in leaves]
    shapes.append(Mark(middle, up, flow.join))
    return PlacedFlow(Drawing(width, up + 3.6, tuple(shapes)), tuple(enters), (middle,), tuple(read))


def _shares(flow: Fan, width: float) -> list[float]:
    """Widths of the items: equal columns if all fit, else the least widths and equal shares of the rest."""
    total, counts = width - GAP * (len(flow.items) - 1), [columns(item) for item in flow.items]
    gaps = [GAP * (count - 1) for count in counts]
    unit = (total - sum(gaps)) / sum(counts)
    even = [unit * count + gap for count, gap in zip(counts, gaps, strict=True)]
    needed = [least(item) for item in flow.items]
    if all(share >= need for share, need in zip(even, needed, strict=True)):
        return even
    spare = max(total - sum(needed), 0.0) / sum(counts)
    return [need + spare * count for need, count in zip(needed, counts, strict=True)]


def _rising(sources: tuple[float, ...], targets: tuple[float, ...], y: float, top: float) -> list[Shape]:
    """Arrows upwards, by way of a bar where the targets are not above the sources."""
    if sources == targets:
        return [Polyline(((x, y), (x, top)), arrow=True) for x in targets]
    bar = top - BEND * 0.6
    lines: list[Shape] = [Polyline(((x, y), (x, bar))) for x in sources]
    ends = (*sources, *targets)
    lines.append(Polyline(((min(ends), bar), (max(ends), bar))))
    return lines + [Polyline(((x, bar), (x, top)), arrow=True) for x in targets]


def _ticks(cell: Cell, width: float) -> Cells | None:
    """Ticks in two shades: of neighbouring groups, or of used and unused items."""
    if not cell.count:
        return None
    share = cell.count // (cell.groups or 1)
    rows = _rows(cell.count, share if share * 2 < width / TICK[0] else 1, ceil(cell.count * TICK[0] / width))
    columns = ceil(cell.count / rows)
    size = min(width / columns, TICK[1])
    if cell.used:
        used = _spread(cell.used, cell.count)
        shades = tuple(int(i in used) for i in range(cell.count))
    else:
        # Neighbouring groups differ in shade, in a row and from row to row.
        turn = 1 if cell.groups and columns // share % 2 == 0 else 0
        shades = tuple((i // share + i // columns * turn) % 2 for i in range(cell.count))
    high = 4.6 if rows == 1 else 2.7
    return Cells(0, 0, size * columns, rows * high, rows, shades, "used" if cell.used else "tick")


def _rows(count: int, share: int, least: int) -> int:
    """The number of rows: the least, or one more where its rows are full and hold whole groups."""
    whole = (rows for rows in range(least, least + 2) if count % (rows * share) == 0)
    return next(whole, least)


def _spread(used: int, count: int) -> set[int]:
    """Places that look random and are always the same."""
    places, i = set[int](), 0
    while len(places) < min(used, count):
        i += 1
        places.add(int(count * (i * GOLDEN % 1)))
    return places


def box(sketch: Sketch, width: float, tone: str, about: str, height: float = 0.0) -> Drawing:
    """A sublayer: title, facts, and its flow; the stream enters below the middle, the source on the left. One without a flow
    keeps its own height, and a line leads on to the height that its neighbours have."""
    inside = width - 2 * PAD
    title = wrapped(sketch.title, TITLE, inside, bold=True)
    facts = wrapped(" · ".join(sketch.facts), SMALL, inside) if sketch.facts else []
    head = len(title) * TITLE * LINE + len(facts) * SMALL * LINE + PAD
    inner = None if sketch.flow is None else placed(sketch.flow, width - 4 * PAD, about)
    entry = 0.0 if inner is None else 19.0 if inner.read else 12.0
    body = PAD if inner is None else entry + inner.drawing.height + 3
    tall = head + body if inner is None else max(height, head + body)
    shapes: list[Shape] = [Box(0, 0, width, tall, tone, about, sketch.title)]
    top = tall - PAD / 2 if inner is not None else (tall + head) / 2 - PAD / 2
    shapes += written(width / 2, top, title, TITLE, bold=True, about=about)
    shapes += written(width / 2, top - len(title) * TITLE * LINE, facts, SMALL, faint=True, about=about)
    ports: tuple[Point, ...] = ()
    if inner is not None:
        left, y = 2 * PAD, entry + tall - head - body
        shapes += inner.drawing.at(left, y)
        shapes += _rising((width / 2,), tuple(left + x for x in inner.enters), 0, y) if not inner.read else []
        if inner.read:
            level = y - BEND * 0.6
            shapes += _entering(width / 2, [left + x for x in inner.enters], level - 7, y)
            shapes += [Polyline(((left + max(inner.read), level), (0, level)))]
            shapes += [Polyline(((left + x, level), (left + x, y)), arrow=True) for x in inner.read]
            ports = ((0.0, level),)
    if tall < height:
        shapes.append(Polyline(((width / 2, tall), (width / 2, height))))
    return Drawing(width, max(height, tall), tuple(shapes), ports)


def _entering(x: float, targets: list[float], bar: float, top: float) -> list[Shape]:
    return [Polyline(((x, 0), (x, bar), (target, bar), (target, top)), arrow=True) for target in targets]


def least_width(sketch: Sketch) -> float:
    """The least width of a sketch's box."""
    inner = 0.0 if sketch.flow is None else least(sketch.flow) + 4 * PAD
    return max(inner, 2 * PAD + max(width_of(word, TITLE, True) for word in sketch.title.split(" ")))


def small_box(x: float, y: float, width: float, text: str, tone: str, about: str) -> list[Shape]:
    """One line in a low box."""
    return [Box(x, y, width, LOW, tone, about, text), TextLine(x + width / 2, y + LOW / 2, text, SMALL, about=about)]


LOW = SMALL * LINE + PAD
"""Height of a box of one line."""
