"""A drawing as an SVG, PNG or PDF file, by matplotlib."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from anyformer.pictures.diagram import colours
from anyformer.pictures.diagram.shapes import Box, Cells, Drawing, Line, Mark, Point, Shape, Words
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
        for level, shape in enumerate(drawing.shapes):
            _draw(axes, shape, level)
        save(figure, path, DPI)


def _draw(axes: Axes, shape: Shape, level: int) -> None:
    match shape:
        case Box():
            _box(axes, shape, level)
        case Words():
            _words(axes, shape)
        case Line():
            _line(axes, shape, level)
        case Mark():
            _mark(axes, shape)
        case Cells():
            _cells(axes, shape)


def _box(axes: Axes, box: Box, level: int) -> None:
    from matplotlib.patches import FancyBboxPatch

    radius = 5.0 if box.frame else 2.6
    if box.tone.startswith("kind "):
        fill, edge = colours.KINDS[int(box.tone[5:]) % len(colours.KINDS)], colours.EDGE
    else:
        fill, edge = colours.FILLS[box.tone], colours.EDGES.get(box.tone, colours.EDGE)
    if box.differs:
        edge, fill = colours.DIFFERS, colours.DIFFERS_FILL if box.filled else fill
    style = f"round,pad=0,rounding_size={radius}"
    wide = 1.2 if not box.filled or box.differs else 0.6
    axes.add_patch(
        FancyBboxPatch(
            (box.x, box.y), box.width, box.height, boxstyle=style, facecolor=fill, edgecolor=edge, linewidth=wide,
            linestyle=(0, (4, 3)) if box.tone == "group" else "-",
            zorder=(1 if box.frame else 2) + level * 1e-4,
        )
    )  # fmt: skip


def _words(axes: Axes, words: Words) -> None:
    colour = colours.DIFFERS_INK if words.differs else colours.FAINT if words.faint else colours.INK
    weight = "bold" if words.bold else "normal"
    axes.text(
        words.x, words.y, words.says, fontsize=words.size, color=colour, weight=weight, ha=words.align, va="center_baseline",
        zorder=4,
    )  # fmt: skip


def _line(axes: Axes, line: Line, level: int) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    colour, wide = (colours.STREAM, 1.5) if line.thick else (colours.WIRE, 0.75)
    z = 1.5 if line.behind else 2 + level * 1e-4
    if line.dashed:
        xs, ys = zip(*line.points, strict=True)
        axes.add_line(Line2D(xs, ys, color=colour, linewidth=wide, linestyle=(0, (3, 2)), zorder=z))
        line = replace(line, points=tip(line.points))
    if line.arrow:
        patch = FancyArrowPatch(
            path=Path(line.points), arrowstyle="-|>,head_length=3.2,head_width=1.7", mutation_scale=1, shrinkA=0, shrinkB=0,
            facecolor=colour, edgecolor=colour, linewidth=wide, linestyle="-", joinstyle="miter", zorder=z, fill=True,
        )  # fmt: skip
        axes.add_patch(patch)
    elif not line.dashed:
        xs, ys = zip(*line.points, strict=True)
        axes.add_line(Line2D(xs, ys, color=colour, linewidth=wide, zorder=z, solid_joinstyle="miter"))


def tip(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """The last piece of a line, as long as its arrow head."""
    (x, y), (ex, ey) = points[-2:]
    length = max(abs(ex - x) + abs(ey - y), 1e-9)
    return (ex - (ex - x) / length * TIP, ey - (ey - y) / length * TIP), (ex, ey)


def _mark(axes: Axes, mark: Mark) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Circle

    if not mark.sign:
        axes.add_patch(Circle((mark.x, mark.y), 1.7, facecolor=colours.STREAM, edgecolor="none", zorder=3))
        return
    axes.add_patch(Circle((mark.x, mark.y), 3.9, facecolor="white", edgecolor=colours.STREAM, linewidth=0.9, zorder=3))
    half = 2.4 if mark.sign in "+−" else 1.8
    strokes = {"+": [(1, 0), (0, 1)], "−": [(1, 0)], "×": [(1, 1), (1, -1)]}[mark.sign]
    for dx, dy in strokes:
        xs, ys = [mark.x - half * dx, mark.x + half * dx], [mark.y - half * dy, mark.y + half * dy]
        axes.add_line(Line2D(xs, ys, color=colours.STREAM, linewidth=0.9, zorder=3.1))


def _cells(axes: Axes, cells: Cells) -> None:
    """One path for each shade, a short thick stroke for each cell: a fifth of the bytes of rectangles."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    strip = cells.tone == "strip"
    fills = colours.KINDS if strip else colours.TICKS[cells.tone]
    columns = -(-len(cells.shades) // cells.rows)
    wide, high = cells.width / columns, cells.height / cells.rows
    inset = 0.0 if strip else wide * 0.12
    for shade in sorted(set(cells.shades)):
        points = []
        for i, own in enumerate(cells.shades):
            if own == shade:
                x, y = cells.x + i % columns * wide, cells.y + cells.height - (i // columns + 0.5) * high
                points += [(x + inset, y), (x + wide - inset, y)]
        strokes = Path(points, [Path.MOVETO, Path.LINETO] * (len(points) // 2))
        axes.add_patch(
            PathPatch(
                strokes, fill=False, edgecolor=fills[shade % len(fills)], linewidth=high - min(high * 0.24, 1.0),
                capstyle="butt", zorder=3,
            )
        )  # fmt: skip
