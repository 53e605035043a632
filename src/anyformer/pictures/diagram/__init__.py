"""Architecture diagrams as vectors: the residual stream, the branches added to it, and the layers that repeat."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from anyformer.describe import UserError
from anyformer.files import writing
from anyformer.model import Architecture
from anyformer.pictures.diagram.look import look
from anyformer.pictures.diagram.page import COMPACT, FULL, page
from anyformer.pictures.diagram.render import render
from anyformer.pictures.diagram.shapes import Drawing
from anyformer.pictures.diagram.tikz import write_tikz
from anyformer.pictures.style import ENDINGS, check_picture

__all__ = ["diagram", "draw_diagram"]
WRITERS: Mapping[str, Callable[[Drawing, Path], None]] = {**dict.fromkeys(ENDINGS, render), ".tex": write_tikz}
"""What writes a drawing, by the ending of the file's name."""


def diagram(architectures: Mapping[str, Architecture], *, compact: bool = False) -> Drawing:
    """The drawing of architectures by their titles, side by side, with differences in colour; compact, each is as wide as a
    column of a paper, and no letter smaller than 7 points."""
    if not architectures:
        raise UserError("no architecture to draw: name one or more")
    return page([look(architecture, title) for title, architecture in architectures.items()], COMPACT if compact else FULL)


def draw_diagram(architectures: Architecture | Mapping[str, Architecture], path: Path, *, compact: bool = False) -> None:
    """Write the drawing to an SVG, PNG, PDF or LaTeX file, by the ending of its name."""
    check_picture(path, tuple(WRITERS))
    named = {"": architectures} if isinstance(architectures, Architecture) else architectures
    drawing = diagram(named, compact=compact)
    with writing(path) as partial:
        WRITERS[path.suffix.lower()](drawing, partial)
