"""Architecture diagrams: the residual stream, what is added to it, what repeats and how, drawn as vectors."""

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
    """The drawing of architectures by their titles, side by side; of several, what differs is in colour."""
    if not architectures:
        raise UserError("no architecture to draw: name one or more")
    return page([look(architecture, title) for title, architecture in architectures.items()])


def draw_diagram(architectures: Architecture | Mapping[str, Architecture], path: Path) -> None:
    """Write the drawing to an SVG, PNG or PDF file, whichever its name ends in."""
    check_picture(path)
    named = {"": architectures} if isinstance(architectures, Architecture) else architectures
    drawing = diagram(named)
    with writing(path) as partial:
        render(drawing, partial)
