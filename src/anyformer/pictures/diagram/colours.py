"""Colours that the colour-blind tell apart (Okabe and Ito's hues), of different lightness, so that they print in grey."""

from __future__ import annotations

from dataclasses import dataclass

from anyformer.pictures.diagram.shapes import Box, Cells, Polyline, TextLine

FILLS = {
    "weight": "#dce9f5",
    "norm": "#eceef0",
    "position": "#eadff0",
    "mix": "#fce8c8",
    "choice": "#f9dcd0",
    "memory": "#d8eee3",
    "pointwise": "#fdf7d4",
    "table": "#e3eef3",
    "mixing": "#ffffff",
    "pointing": "#ffffff",
    "frame": "#f8f9fa",
    "group": "#ffffff",
    "differs": "#fac79e",
}
EDGES = {"differs": "#fac79e", "frame": "#8a949e", "group": "#b8c0c8", "mixing": "#0072b2", "pointing": "#1b8a6b"}
EDGE = "#7d8790"
KINDS = ("#bcd9ef", "#e69f00", "#3f9f80", "#f3e36b", "#7a5195", "#c9c9c9", "#56b4e9", "#a04000")
"""Colours of kinds of layers."""
INK, FAINT, STREAM, WIRE = "#1c2329", "#5b6670", "#1c2329", "#4a545e"
TICKS = {"tick": ("#3f77a6", "#9cc1e0"), "used": ("#c3d0dc", "#0b3c5d")}
DIFFERS = "#d55e00"
"""Colours of differences between architectures side by side."""
DIFFERS_FILL, DIFFERS_INK = FILLS["differs"], "#8f3800"
ARROW = (3.2, 3.4)
"""Length and width of an arrow head."""
DOT, SIGN, STROKE = 1.7, 3.9, 0.9
"""Radii of marks without and with a sign, and the width of their strokes."""


@dataclass(frozen=True)
class Paint:
    """How a box is painted: colours, width and dashes of its edge, radius of its corners."""

    fill: str
    edge: str
    width: float
    radius: float
    dashed: bool


def paint(box: Box) -> Paint:
    """The paint of a box."""
    if box.tone.startswith("kind "):
        fill, edge = KINDS[int(box.tone[5:]) % len(KINDS)], EDGE
    else:
        fill, edge = FILLS[box.tone], EDGES.get(box.tone, EDGE)
    if box.differs:
        edge, fill = DIFFERS, DIFFERS_FILL if box.filled else fill
    wide = 1.2 if not box.filled or box.differs else 0.6
    return Paint(fill, edge, wide, 5.0 if box.frame else 2.6, box.tone == "group")


def stroke(line: Polyline) -> tuple[str, float]:
    """Colour and width of a line."""
    return (STREAM, 1.5) if line.thick else (WIRE, 0.75)


def ink(words: TextLine) -> str:
    """The colour of words."""
    return DIFFERS_INK if words.differs else FAINT if words.faint else INK


@dataclass(frozen=True)
class Strokes:
    """The cells of one shade as thick strokes from left to right, a fifth of the bytes of rectangles."""

    colour: str
    width: float
    ends: tuple[tuple[tuple[float, float], tuple[float, float]], ...]


def strokes(cells: Cells) -> list[Strokes]:
    """A stroke per cell, by shade."""
    strip = cells.tone == "strip"
    fills = KINDS if strip else TICKS[cells.tone]
    columns = -(-len(cells.shades) // cells.rows)
    wide, high = cells.width / columns, cells.height / cells.rows
    inset = 0.0 if strip else wide * 0.12
    # Cells of a strip above each other are told apart by a gap, those beside each other in one row by a finer one.
    if strip and cells.rows == 1:
        inset = min(wide * 0.1, 0.4)
    found = []
    for shade in sorted(set(cells.shades)):
        ends = []
        for i, own in enumerate(cells.shades):
            if own == shade:
                x, y = cells.x + i % columns * wide, cells.y + cells.height - (i // columns + 0.5) * high
                ends.append(((x + inset, y), (x + wide - inset, y)))
        found.append(Strokes(fills[shade % len(fills)], high - min(high * 0.24, 1.0), tuple(ends)))
    return found


def crossed(x: float, y: float, sign: str) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """The strokes of a mark's sign."""
    half = 2.4 if sign in "+−" else 1.8
    ways = {"+": [(1, 0), (0, 1)], "−": [(1, 0)], "×": [(1, 1), (1, -1)]}[sign]
    return [((x - half * dx, y - half * dy), (x + half * dx, y + half * dy)) for dx, dy in ways]
