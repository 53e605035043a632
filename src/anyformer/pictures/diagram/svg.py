"""A drawing as SVG text in milliseconds, for a page: every part is a group of its own, and what a style sheet may change has a
class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from itertools import groupby

from anyformer.pictures.diagram import colours
from anyformer.pictures.diagram.render import tip
from anyformer.pictures.diagram.shapes import Box, Cells, Drawing, Mark, Point, Polyline, Shape, TextLine
from anyformer.pictures.diagram.text import FONT

FAMILY = f"{FONT}, Verdana, Arial, sans-serif"
BASELINE = 0.36
"""How far the baseline is below the middle of a line, in sizes: half the height of a capital letter."""
ANCHORS = {"left": "start", "center": "middle", "right": "end"}


def svg(drawing: Drawing) -> str:
    """The text of the picture; y grows downwards in it.

    The first box of a part is a button that can be reached by keyboard, with its path in `data-part`; further boxes of it have
    the path alone. Words and lines let the pointer through to the box behind them.
    """
    writer = _SvgWriter(drawing.height)
    body = "".join(writer.layer(shapes) for _, shapes in groupby(drawing.stacked, key=lambda shape: isinstance(shape, Box)))
    width, height = _number(drawing.width), _number(drawing.height)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="{FAMILY}">{body}</svg>'
    )


class _SvgWriter:
    """Shapes as elements of a picture of a height; remembers which parts have their button."""

    def __init__(self, height: float) -> None:
        self.height = height
        self.parts = set[str]()

    def layer(self, shapes: Iterable[Shape]) -> str:
        """Boxes, or what lies in front of them and lets the pointer through."""
        drawn = [(isinstance(shape, Box), line) for shape in shapes for line in self.drawn(shape)]
        lines = "".join(line for _, line in drawn)
        return lines if drawn[0][0] else f'<g pointer-events="none">{lines}</g>'

    def drawn(self, shape: Shape) -> Iterator[str]:
        """The elements of a shape."""
        match shape:
            case Box():
                yield self.box(shape)
            case TextLine():
                yield self.words(shape)
            case Polyline():
                yield from self.line(shape)
            case Mark():
                yield from self.mark(shape)
            case Cells():
                for shade in colours.strokes(shape):
                    path = "".join(self.path(ends) for ends in shade.ends)
                    yield f'<path class="cells" d="{path}" fill="none" stroke="{shade.colour}" {_wide(shade.width)}/>'

    def box(self, box: Box) -> str:
        paint, (left, _, _, top) = colours.paint(box), box.extent
        dashes = ' stroke-dasharray="2.4 1.8"' if paint.dashed else ""
        rect = (
            f'<rect class="box {escape(box.tone)}{" differs" if box.differs else ""}" x="{_number(left)}" '
            f'y="{_number(self.height - top)}" width="{_number(box.width)}" height="{_number(box.height)}" '
            f'rx="{_number(paint.radius)}" fill="{paint.fill}" stroke="{paint.edge}" {_wide(paint.width)}{dashes}/>'
        )
        if not box.part:
            return rect
        part = escape(box.part)
        if box.part in self.parts:
            return f'<g class="part" data-part="{part}">{rect}</g>'
        self.parts.add(box.part)
        label = escape(f"{box.says or 'layer'}: {box.part}")
        return f'<g class="part" data-part="{part}" tabindex="0" role="button" aria-label="{label}">{rect}</g>'

    def words(self, words: TextLine) -> str:
        look = f"text{' faint' if words.faint else ''}{' differs' if words.differs else ''}"
        bold = ' font-weight="bold"' if words.bold else ""
        y = self.height - words.y + BASELINE * words.size
        return (
            f'<text class="{look}" x="{_number(words.x)}" y="{_number(y)}" font-size="{_number(words.size)}" '
            f'text-anchor="{ANCHORS[words.align]}" fill="{colours.ink(words)}"{bold}>{escape(words.says)}</text>'
        )

    def line(self, line: Polyline) -> Iterator[str]:
        colour, wide = colours.stroke(line)
        look = f'class="{"stream" if line.thick else "wire"}" fill="none" stroke="{colour}" {_wide(wide)}'
        dashes = ' stroke-dasharray="2.3 1.5"' if line.dashed else ""
        points = line.points
        if line.arrow:
            points = (*points[:-1], tip(points)[0])
            yield self.head(line.points, colour)
        yield f'<path {look} d="{self.path(points)}"{dashes}/>'

    def head(self, points: tuple[Point, ...], colour: str) -> str:
        """The arrow head at the end of a line."""
        length, width = colours.ARROW
        (x, y), (ex, ey) = points[-2:]
        far = max(abs(ex - x) + abs(ey - y), 1e-9)
        dx, dy = (ex - x) / far, (ey - y) / far
        back = ex - dx * length, ey - dy * length
        corners = (
            (ex, ey),
            (back[0] - dy * width / 2, back[1] + dx * width / 2),
            (back[0] + dy * width / 2, back[1] - dx * width / 2),
        )
        return f'<path class="head" d="{self.path(corners)}Z" fill="{colour}"/>'

    def mark(self, mark: Mark) -> Iterator[str]:
        at = f'cx="{_number(mark.x)}" cy="{_number(self.height - mark.y)}"'
        if not mark.sign:
            yield f'<circle class="dot" {at} r="{colours.DOT}" fill="{colours.STREAM}"/>'
            return
        yield f'<circle class="sign" {at} r="{colours.SIGN}" fill="#ffffff" stroke="{colours.STREAM}" {_wide(colours.STROKE)}/>'
        strokes = "".join(self.path(ends) for ends in colours.crossed(mark.x, mark.y, mark.sign))
        yield f'<path class="sign" d="{strokes}" fill="none" stroke="{colours.STREAM}" {_wide(colours.STROKE)}/>'

    def path(self, points: Iterable[Point]) -> str:
        """`M1 2L3 4`."""
        return "M" + "L".join(f"{_number(x)} {_number(self.height - y)}" for x, y in points)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) >= 0.005 else "0"


def _wide(width: float) -> str:
    return f'stroke-width="{_number(width)}"'
