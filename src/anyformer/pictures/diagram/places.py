"""What part of the description a box of a block stands for, as a path, for pictures whose parts open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anyformer.pictures.diagram.shapes import Box, Drawing, Shape

BranchNames = Sequence[Sequence[str]]
"""The names of the branches of a block, step by step."""


def with_parts(drawing: Drawing, about: str, block: str, branches: BranchNames) -> Drawing:
    """The drawing of a block with the path of its part in every box: `decoder.local.attention`; `about`: its section's place,
    `block`: its path."""

    def told(shape: Shape) -> Shape:
        if not isinstance(shape, Box) or not shape.about.startswith(f"{about}/"):
            return shape
        words = shape.about.removeprefix(f"{about}/").split("/")
        return replace(shape, part=_path(words, block, branches, norm=shape.tone == "norm"))

    return replace(drawing, shapes=tuple(map(told, drawing.shapes)))


def _path(words: Sequence[str], block: str, branches: BranchNames, *, norm: bool) -> str:
    """The path of a box from its place in the block: `0/1/sublayer` is the second branch of the first step."""
    step, *inside = words
    if inside[0].isdecimal():
        branch = f"{block}.{branches[int(step)][int(inside[0])]}"
        norms = {"before": "norm_before", "after 0": "norm_after"}
        return f"{branch}.{norms[inside[1]]}" if norm and inside[1] in norms else branch
    norms = {"before": "norm_before", "sum": "norm_branches", "after 0": "norm_after"}
    name = norms[inside[0]] if norm and inside[0] in norms else "gain" if inside[0].startswith("after") else None
    return f"{block}.steps.{step}.{name}" if name else block
