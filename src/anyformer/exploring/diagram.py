"""The diagram of architectures as SVG text, every box with the path that its part has in the sheet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from anyformer.describe import get
from anyformer.exploring.tree import tree
from anyformer.model import Architecture
from anyformer.pictures import diagram
from anyformer.pictures.diagram.shapes import Box, Drawing
from anyformer.pictures.diagram.svg import svg


def diagram_data(architectures: Mapping[str, Architecture]) -> dict[str, Any]:
    """The picture of one, or of several side by side with what differs marked; sizes are points."""
    drawing = diagram(architectures)
    if len(architectures) == 1:
        drawing = _with_paths(drawing, *architectures.values())
    return {"svg": svg(drawing), "width": drawing.width, "height": drawing.height}


def _with_paths(drawing: Drawing, architecture: Architecture) -> Drawing:
    """The drawing with the paths of the sheet: those of parts that stand nowhere else are as short as these."""
    known = {part.path for part in tree(architecture)}

    def own(path: str) -> str:
        if path in known or not path:
            return path
        # A picture says the step; the path of a block with one step leaves it out.
        short = path.replace(".steps.0.", ".")
        return short if short in known and get(architecture, short) is get(architecture, path) else ""

    return replace(
        drawing, shapes=tuple(replace(each, part=own(each.part)) if isinstance(each, Box) else each for each in drawing.shapes)
    )
