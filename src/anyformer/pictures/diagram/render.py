"""A drawing as an SVG, PNG or PDF file, by matplotlib."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from anyformer.pictures.diagram import colours
from anyformer.pictures.diagram.shapes import Box, Cells, Drawing, Mark, Point, Polyline, Shape, TextLine
from anyformer.pictures.diagram.text import FONT
from anyformer.pictures.style import save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INCH = 72.0
DPI = 200
TIP = 3.6
"""Length of an arrow head."""
SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "anyformer",
    "pdf.fonttype": 42,
    "font.family": "sans-serif",
    "font.sans-serif": [FONT, "Verdana", "Arial", "sans-serif"],
}
"""Text stays text, in SVG and in PDF; the same picture gives the same bytes."""


def render(drawing: Drawing, path: FilePath) -> None:
    """Write the file in the format of its ending."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(SETTINGS):  # type: ignore[arg-type]
        figure = Figure(figsize=(drawing.width / INCH, drawing.height / INCH), dpi=DPI)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, drawing.width)
        axes.set_ylim(0, drawing.height)
        axes.set_axis_off()
        for level, shape in enumerate(drawing.stacked):
            _draw(axes, shape, level)
        save(figure, path, DPI)


def _draw(axes: Axes, shape: Shape, level: int) -> None:
    """A shape in front of those of lower levels."""
    match shape:
        case Box():
            _box(axes, shape, level)
        case TextLine():
            _words(axes, shape, level)
        case Polyline():
            _line(axes, shape, level)
        case Mark():
            _mark(axes, shape, level)
        case Cells():
            _cells(axes, shape, level)


def _box(axes: Axes, box: Box, level: int) -> None:
    from matplotlib.patches import FancyBboxPatch

    paint = colours.paint(box)
    axes.add_patch(
        FancyBboxPatch(
            (box.x, box.y), box.width, box.height, boxstyle=f"round,pad=0,rounding_size={paint.radius}", facecolor=paint.fill,
            edgecolor=paint.edge, linewidth=paint.width, linestyle=(0, (4, 3)) if paint.dashed else "-", zorder=level,
        )
    )  # fmt: skip


def _words(axes: Axes, words: TextLine, level: int) -> None:
    axes.text(
        words.x, words.y, words.says, fontsize=words.size, color=colours.ink(words), weight="bold" if words.bold else "normal",
        ha=words.align, va="center_baseline", zorder=level,
    )  # fmt: skip


def _line(axes: Axes, line: Polyline, level: int) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    colour, wide = colours.stroke(line)
    if line.dashed:
        xs, ys = zip(*line.points, strict=True)
        axes.add_line(Line2D(xs, ys, color=colour, linewidth=wide, linestyle=(0, (3, 2)), zorder=level))
        line = replace(line, points=tip(line.points))
    if line.arrow:
        head, width = colours.ARROW
        patch = FancyArrowPatch(
            path=Path(line.points), arrowstyle=f"-|>,head_length={head},head_width={width / 2}", mutation_scale=1, shrinkA=0,
            shrinkB=0, facecolor=colour, edgecolor=colour, linewidth=wide, linestyle="-", joinstyle="miter", zorder=level,
            fill=True,
        )  # fmt: skip
        axes.add_patch(patch)
    elif not line.dashed:
        xs, ys = zip(*line.points, strict=True)
        axes.add_line(Line2D(xs, ys, color=colour, linewidth=wide, zorder=level, solid_joinstyle="miter"))


def tip(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """The last piece of a line, as long as its arrow head."""
    (x, y), (ex, ey) = points[-2:]
    length = max(abs(ex - x) + abs(ey - y), 1e-9)
    return (ex - (ex - x) / length * TIP, ey - (ey - y) / length * TIP), (ex, ey)


def _mark(axes: Axes, mark: Mark, level: int) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Circle

    at, ink = (mark.x, mark.y), colours.STREAM
    if not mark.sign:
        axes.add_patch(Circle(at, colours.DOT, facecolor=ink, edgecolor="none", zorder=level))
        return
    axes.add_patch(Circle(at, colours.SIGN, facecolor="white", edgecolor=ink, linewidth=colours.STROKE, zorder=level))
    for start, end in colours.crossed(mark.x, mark.y, mark.sign):
        xs, ys = zip(start, end, strict=True)
        axes.add_line(Line2D(xs, ys, color=ink, linewidth=colours.STROKE, zorder=level + 0.5))


def _cells(axes: Axes, cells: Cells, level: int) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    for shade in colours.strokes(cells):
        path = Path([end for ends in shade.ends for end in ends], [Path.MOVETO, Path.LINETO] * len(shade.ends))
        axes.add_patch(
            PathPatch(path, fill=False, edgecolor=shade.colour, linewidth=shade.width, capstyle="butt", zorder=level)
        )
