"""Layers that repeat: a frame with a bracket, or frames that take turns, with a strip that shows the kind of each layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from anyformer.parts.sketch import Sketch
from anyformer.pictures.diagram.block import LEFT, RAIL, block, rail, step_heights
from anyformer.pictures.diagram.flow import PAD, SMALL
from anyformer.pictures.diagram.kinds import LayerSection
from anyformer.pictures.diagram.look import BlockLook, ColumnLook
from anyformer.pictures.diagram.places import with_parts
from anyformer.pictures.diagram.shapes import Align, Box, Cells, Drawing, Mark, Point, Polyline, Shape, TextLine, written
from anyformer.pictures.diagram.text import LINE, wrapped

MARGIN, APART, INSET, STRIP = 58.0, 12.0, 8.0, 8.0
"""Spaces beside the frame for bracket and strip, between frames, around them, and the width of a strip."""
FORK, UNDER, OVER, HEAD = 7.0, 20.0, 9.0, 14.0
"""Heights for kinds by turns: of the fork, below the frames, of the join above the frames, and above the frames in all."""
LABEL, TIMES = 7.2, 10.5
"""Sizes of text."""
Series = LayerSection[BlockLook]


@dataclass(frozen=True)
class Extents:
    """Sizes that a picture shares: the width of all sublayers and, by stack and section, heights of the steps of blocks."""

    column: float
    heights: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class PlacedSection:
    """The drawing of a section, and the place of the stream through it."""

    drawing: Drawing
    rail: float


def shortened(series: tuple[Series, ...]) -> tuple[Series, ...]:
    """Sections in which sublayers shown in one before are named and not drawn again."""
    shown: dict[Sketch, str] = {}
    made = []
    for section in series:
        made.append(replace(section, kinds=tuple(replace(kind, look=_shortened(kind.look, shown)) for kind in section.kinds)))
        for kind in section.kinds:
            place = kind.name if len(section.kinds) > 1 else numbered(section)
            for step in kind.look:
                for branch in step.branches:
                    shown.setdefault(branch.sketch, f"as in {place}")
    return tuple(made)


def _shortened(look: BlockLook, shown: Mapping[Sketch, str]) -> BlockLook:
    def short(sketch: Sketch) -> Sketch:
        return Sketch(sketch.title, (shown[sketch],)) if sketch in shown else sketch

    return tuple(
        replace(step, branches=tuple(replace(branch, sketch=short(branch.sketch)) for branch in step.branches)) for step in look
    )


def numbered(section: Series) -> str:
    """`layer 0`, or `layers 0 – 2`."""
    last = section.first + len(section.layers) - 1
    return f"layer {last}" if last == section.first else f"layers {section.first} – {last}"


def placed(look: ColumnLook, number: int, sizes: Extents) -> PlacedSection:
    """The section of a number, with its bracket."""
    section = look.sections[number]
    about = f"{look.name}/{number}"
    shade = sum(len(earlier.kinds) for earlier in look.sections[:number])
    frames = _frames(look, number, sizes, shade)
    turns = len(frames) > 1
    drawn = _by_turns(section, look, frames, about) if turns else _one(look, frames[0], _path(look, section, 0))
    bracket = _bracket(section, drawn.drawing, look, shade if turns else None)
    return replace(drawn, drawing=replace(drawn.drawing, shapes=(*drawn.drawing.shapes, *bracket)))


def _frames(look: ColumnLook, number: int, sizes: Extents, shade: int) -> list[Drawing]:
    """The block of each kind of a section."""
    section, about = look.sections[number], f"{look.name}/{number}"
    made = []
    for i, kind in enumerate(section.kinds):
        own, peers = step_heights(kind.look, sizes.column), sizes.heights.get(about, ())
        shared = " (shared weights)" if kind.shared else ""
        header = f"{kind.name}{shared}" if shared or len(section.kinds) > 1 or len(look.sections) > 1 else ""
        heights = peers if len(peers) == len(own) else own
        drawn = block(kind.look, sizes.column, heights, about, header=header, kind=shade + i, mirrored=look.reads)
        made.append(with_parts(drawn, about, _path(look, section, i), look.branches[kind.names[0]]))
    return made


def _path(look: ColumnLook, section: Series, kind: int) -> str:
    """The path of the block that a kind's frame shows, the first of its variants."""
    return f"{look.path}.{section.kinds[kind].names[0]}"


def _framed(look: ColumnLook, drawing: Drawing, x: float, y: float, height: float, part: str) -> tuple[list[Shape], float]:
    """A block in its frame with the stream through it, and the place of the stream."""
    at = x + (drawing.width - RAIL if look.reads else RAIL)
    frame = Box(x, y, drawing.width, height, "frame", part=part)
    return [frame, *rail(at, y, y + height, look.lanes), *drawing.at(x, y)], at


def _one(look: ColumnLook, drawing: Drawing, part: str) -> PlacedSection:
    shapes, at = _framed(look, drawing, 0, 0, drawing.height, part)
    return PlacedSection(replace(drawing, shapes=tuple(shapes)), at)


def _by_turns(section: Series, look: ColumnLook, frames: list[Drawing], about: str) -> PlacedSection:
    """Frames side by side within one more; each layer takes one of the dashed ways."""
    tall = max(frame.height for frame in frames)
    shapes, ports, rails, x = list[Shape](), list[Point](), list[float](), INSET
    for kind, frame in enumerate(frames):
        framed, at = _framed(look, frame, x, UNDER, tall, _path(look, section, kind))
        shapes += framed
        rails.append(at)
        ports += frame.ports_at(x, UNDER)
        x += frame.width + APART
    width, top = x - APART + INSET, UNDER + tall
    main = rails[-1] if look.reads else rails[0]
    left = PAD + (4 if look.reads else LEFT)
    title = wrapped(f"{len(section.layers)} layers by turns: {section.pattern}", LABEL, width - left - PAD - LEFT, bold=True)
    height = top + HEAD + len(title) * LABEL * LINE + PAD
    shapes += written(left, height - PAD, title, LABEL, bold=True, align="left", about=f"{about}/pattern")
    for at in rails:
        shapes.append(Polyline(((main, FORK), (at, FORK), (at, UNDER)), arrow=True, dashed=True))
        shapes.append(Polyline(((at, top), (at, top + OVER), (main, top + OVER)), dashed=True))
    shapes += rail(main, 0, FORK, look.lanes) + rail(main, top + OVER, height, look.lanes)
    shapes += [Mark(main, FORK), Mark(main, top + OVER)]
    return PlacedSection(Drawing(width, height, (Box(0, 0, width, height, "group"), *shapes), tuple(ports)), main)


def _bracket(section: Series, drawing: Drawing, look: ColumnLook, shade: int | None) -> list[Shape]:
    """The bracket of a section with the count and numbers of its layers; for kinds by turns a strip with a cell per layer."""
    sign, x = (1, drawing.width + 5) if look.reads else (-1, -5.0)
    align: Align = "left" if look.reads else "right"
    height, count = drawing.height, len(section.layers)
    last = section.first + count - 1
    shapes: list[Shape] = [Polyline(((x, 0), (x + sign * 4, 0), (x + sign * 4, height), (x, height)))]
    x += sign * 8
    if shade is not None:
        left = x if look.reads else x - STRIP
        shades = tuple(shade + kind for kind in reversed(section.layers))
        shapes.append(Cells(left, 0, STRIP, height, count, shades, "strip", f"{look.name}/strip {section.first}"))
        x += sign * (STRIP + 3)
        shapes.append(TextLine(x, 4, str(section.first), SMALL, align=align, faint=True))
        shapes.append(TextLine(x, height - 4, str(last), SMALL, align=align, faint=True))
    elif len(look.sections) > 1:
        numbers = str(last) if count == 1 else f"{section.first} – {last}"
        shapes.append(TextLine(x, height / 2 - 10, numbers, SMALL, align=align, faint=True))
    about = f"{look.name}/bracket {section.first}"
    return [*shapes, TextLine(x, height / 2 + 2, f"× {count}", TIMES, bold=True, align=align, about=about)]
