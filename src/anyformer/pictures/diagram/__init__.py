"""Architecture diagrams as vectors: the residual stream, the branches added to it, and the layers that repeat."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from anyformer.describe import UserError
from anyformer.files import writing
from anyformer.model import Architecture
from anyformer.pictures.diagram.look import look
from anyformer.pictures.diagram.page import page
from anyformer.pictures.diagram.render import render
from anyformer.pictures.diagram.shapes import Drawing
from anyformer.pictures.style import check_picture

__all__ = ["diagram", "draw_diagram"]


def diagram(architectures: Mapping[str, Architecture]) -> Drawing:
    """The drawing of architectures by their titles, side by side, with differences in colour."""
    if not architectures:
        raise UserError("no architecture to draw: name one or more")
    return page([look(architecture, title) for title, architecture in architectures.items()])


def draw_diagram(architectures: Architecture | Mapping[str, Architecture], path: Path) -> None:
    """Write the drawing to an SVG, PNG or PDF file, by the ending of its name."""
    check_picture(path)
    named = {"": architectures} if isinstance(architectures, Architecture) else architectures
    drawing = diagram(named)
    with writing(path) as partial:
        render(drawing, partial)
