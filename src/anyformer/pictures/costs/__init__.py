"""Costs of architectures as a picture: memory, decode state, FLOPs by component, and the roofline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from anyformer.costs.page import title
from anyformer.costs.sheet import CostSheet
from anyformer.describe import UserError
from anyformer.pictures.costs.memory import draw_inference, draw_training, inference_rows, training_rows
from anyformer.pictures.costs.roofline import draw_roofline
from anyformer.pictures.costs.rows import inches
from anyformer.pictures.costs.share import draw_shares
from anyformer.pictures.costs.state import draw_state
from anyformer.pictures.style import check_picture, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HIGH, TALL = 10.0, 3.5, 4.2
Panel = Callable[["Axes"], None]


def draw_costs(sheets: Mapping[str, CostSheet], path: Path) -> None:
    """Panels two in a row; the last one is as wide as the picture where it would stand alone."""
    check_picture(path)
    first = next(iter(sheets.values()))
    if first.hardware is None:
        raise UserError("costs are drawn beside a device: name its hardware, 'h100' for instance")
    panels = list(panels_of(sheets))
    rows = ceil(len(panels) / 2)
    alone = len(panels) % 2 == 1
    heights = [_memory_height(sheets), *[HIGH] * (rows - 2), TALL if alone else HIGH]
    with drawing(path, WIDTH, sum(heights) + 0.4) as figure:
        figure.suptitle(_headline(sheets), fontsize=12, fontweight="bold")
        grid = figure.add_gridspec(rows, 2, height_ratios=heights)
        for i, draw in enumerate(panels):
            wide = alone and i == len(panels) - 1
            draw(figure.add_subplot(grid[i // 2, :] if wide else grid[i // 2, i % 2]))


def _memory_height(sheets: Mapping[str, CostSheet]) -> float:
    """Inches of the panels of memory."""
    if len(sheets) == 1:
        return HIGH
    return max(HIGH, *(inches(rows(sheets), len(sheets)) for rows in (training_rows, inference_rows)))


def _headline(sheets: Mapping[str, CostSheet]) -> str:
    """The architectures, and the call of all figures."""
    first = next(iter(sheets.values()))
    call, on, device = title(first).partition(", on ")
    return f"{', '.join(sheets)}{': ' if len(sheets) == 1 else chr(10)}{call}{on}{device.partition(':')[0]}"


def panels_of(sheets: Mapping[str, CostSheet]) -> tuple[Panel, ...]:
    """The panels of these architectures; models that decode nothing have none of decode state."""
    first = next(iter(sheets.values()))
    assert first.hardware is not None
    decodes = any("decode" in sheet.modes for sheet in sheets.values())
    memory = (partial(draw, sheets=sheets, hardware=first.hardware) for draw in (draw_training, draw_inference))
    others = (draw_state, draw_shares, draw_roofline) if decodes else (draw_shares, draw_roofline)
    return (*memory, *(partial(draw, sheets=sheets) for draw in others))
