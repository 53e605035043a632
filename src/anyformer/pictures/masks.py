"""Each distinct mask of an architecture as a square: which keys (columns) each query (row) may look at."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from anyformer.describe import UserError
from anyformer.model import Architecture
from anyformer.parts.mask_value import MaskValue

LENGTH = 32


def masks_of(architecture: Architecture) -> dict[MaskValue, list[str]]:
    """Every mask and the places where it is: `decoder.local.attention`, in the order computed."""
    found: dict[MaskValue, list[str]] = {}
    for stack_name, stack in architecture.stacks.items():
        for variant, block in stack.variants.items():
            for branch, held in block.branches.items():
                for mask in held.sublayer.masks:
                    found.setdefault(mask, []).append(f"{stack_name}.{variant}.{branch}")
    return found


def draw_masks(architecture: Architecture, path: Path, length: int = LENGTH) -> None:
    """One panel per mask for `length` positions, a quarter of them prefix; the share of allowed pairs in its title."""
    from matplotlib.figure import Figure

    masks = masks_of(architecture)
    if not masks:
        raise UserError("this architecture has no attention whose mask could be drawn")
    columns = min(3, len(masks))
    rows = math.ceil(len(masks) / columns)
    figure = Figure(figsize=(4.2 * columns, 4.6 * rows), dpi=120, layout="constrained")
    panels = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for panel in panels[len(masks) :]:
        panel.set_axis_off()
    for panel, (mask, places) in zip(panels, masks.items(), strict=False):
        allowed = mask.ranges(np.arange(length), length, length // 4).dense(length)
        panel.imshow(allowed, cmap="Blues", vmin=0, vmax=1.4, interpolation="nearest")
        panel.set_xticks(np.arange(-0.5, length), minor=True)
        panel.set_yticks(np.arange(-0.5, length), minor=True)
        panel.grid(which="minor", color="white", linewidth=0.6)
        panel.tick_params(which="minor", length=0)
        panel.set_xlabel("key")
        panel.set_ylabel("query")
        panel.set_title(f"{mask.spelled}\n{', '.join(places)}\n{allowed.mean():.0%} of pairs", fontsize=8, wrap=True)
    figure.savefig(path)
