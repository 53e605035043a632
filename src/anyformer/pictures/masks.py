"""Each distinct mask as a square of queries (rows) and keys (columns), and a strip with the masks of each layer."""

from __future__ import annotations

import math
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anyformer.describe import UserError
from anyformer.model import Architecture
from anyformer.parts.masks.mask import Mask
from anyformer.parts.masks.ranges import Integers, Ranges
from anyformer.pictures.patterns import Pattern, Patterns, Strip, patterns_of, telling_length
from anyformer.pictures.style import FAINT, HUES, check_picture, drawing, in_tokens, token_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELLS = 128
"""Cells of a side at most; up to `SQUARES` of them are outlined one by one."""
SQUARES = 32
LONGEST = 1 << 22
"""Positions that are still counted in seconds."""
COLUMNS, TITLE = 3, 38
"""Panels in a row, and letters in a line of their titles."""
ROWS = 1 << 16
"""Queries counted together, which bounds the memory."""
DARKER = 0.6
"""Exponent of a cell's share, so that a stride of one position in many is visible."""


def draw_masks(architecture: Architecture, path: Path, length: int | None = None, *, title: str = "") -> None:
    """A panel per distinct mask at `length` positions, by default one that shows its pattern, and a strip of the layers.

    A cell is a square of positions, the darker the more of its pairs are allowed. Refuses an architecture without a mask, and a
    file whose ending is no picture's.
    """
    check_picture(path)
    length = telling_length(architecture) if length is None else length
    if not 1 <= length <= LONGEST:
        raise UserError(f"masks are drawn at 1 to {LONGEST:,} positions, got {length:,}")
    patterns = patterns_of(architecture, length)
    if not patterns.places:
        raise UserError(_nothing(patterns))
    columns = min(COLUMNS, len(patterns.places))
    rows = math.ceil(len(patterns.places) / columns)
    strips = 0.62 * len(patterns.strips) + 0.35
    with drawing(path, max(5.2, 3.4 * columns), 0.5 + 4.0 * rows + strips) as figure:
        halves: Any = figure.subfigures(2, 1, height_ratios=(0.5 + 4.0 * rows, strips))
        top, bottom = halves
        top.suptitle(f"{title + ': ' if title else ''}masks at {length:,} positions", fontsize=12, fontweight="bold")
        if length > CELLS:
            side = f"{in_tokens(length // CELLS)}" if length % CELLS == 0 else f"about {length / CELLS:.0f}"
            top.supxlabel(
                f"a cell is {side} positions square, the darker the more of its pairs are allowed", fontsize=8.5, color=FAINT
            )
        panels = np.atleast_1d(top.subplots(rows, columns)).ravel()
        for panel in panels[len(patterns.places) :]:
            panel.set_axis_off()
        for i, (pattern, panel) in enumerate(zip(patterns.places, panels, strict=False)):
            _panel(panel, pattern, HUES[i % len(HUES)])
            _heading(panel, pattern, patterns.holders(i))
        lines = np.atleast_1d(bottom.subplots(len(patterns.strips), 1)).ravel()
        for line, strip in zip(lines, patterns.strips, strict=True):
            _strip(line, strip)


def _panel(axes: Axes, pattern: Pattern, colour: str) -> None:
    """The share of allowed pairs in every cell, on axes of positions."""
    from matplotlib.colors import LinearSegmentedColormap

    shares = coverage(pattern.mask, pattern.queries, pattern.keys, pattern.prefix, CELLS)
    hue = LinearSegmentedColormap.from_list("share", ["#f6f6f4", colour])
    edges = (0, pattern.keys, pattern.queries, 0)
    axes.imshow(shares**DARKER, cmap=hue, vmin=0, vmax=1, interpolation="nearest", extent=edges, aspect="auto")
    axes.set_box_aspect(1)
    if max(shares.shape) <= SQUARES:
        for side, draw in ((shares.shape[0], axes.axhline), (shares.shape[1], axes.axvline)):
            for i in range(1, side):
                draw(i, color="white", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(True)
    for side, set_ticks in ((pattern.keys, axes.set_xticks), (pattern.queries, axes.set_yticks)):
        ticks = token_ticks(side)
        set_ticks(ticks, list(map(in_tokens, ticks)))
    axes.set_xlabel("key of the source (position)" if pattern.across else "key (position)")
    axes.set_ylabel("query (position)")


def _heading(axes: Axes, pattern: Pattern, holders: str) -> None:
    """The mask's name, the layers that have it, and the pairs that it allows."""
    share = "every pair" if pattern.share == 1 else f"{pattern.share:.1%} of the pairs"
    axes.set_title(fill(pattern.title, TITLE), pad=30, fontsize=10)
    axes.annotate(
        f"{holders}\n{share}: {pattern.pairs:,}", (0, 1), (0, 4), "axes fraction", textcoords="offset points", va="bottom"
    )


def _strip(axes: Axes, strip: Strip) -> None:
    """A cell per layer, in the colours of its masks; grey and hatched for a layer without."""
    for i, numbers in enumerate(strip.layers):
        for j, number in enumerate(numbers):
            high = 1 / len(numbers)
            axes.add_patch(_box(i, 1 - (j + 1) * high, high, HUES[number % len(HUES)], ""))
        if not numbers:
            axes.add_patch(_box(i, 0, 1, "#e3e3e3", "////"))
    axes.set_xlim(0, len(strip.layers))
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.spines[["left", "bottom"]].set_visible(False)
    every = max(1, len(strip.layers) // 8)
    ticks = [*range(0, len(strip.layers) - 1 - every // 2, every), len(strip.layers) - 1]
    axes.set_xticks([tick + 0.5 for tick in ticks], list(map(str, ticks)))
    axes.tick_params(length=0)
    axes.set_title(f"{strip.title}{_without(strip)}", fontsize=9, fontweight="normal")


def _box(x: float, y: float, high: float, colour: str, hatch: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle(
        (x + 0.04, y), 0.92, high, facecolor=colour, edgecolor=FAINT if hatch else "white", hatch=hatch, linewidth=0.5
    )


def _without(strip: Strip) -> str:
    """The mixers of the hatched layers, in words."""
    idle = [kinds for kinds, numbers in zip(strip.unmasked, strip.layers, strict=True) if not numbers]
    mixers = dict.fromkeys(kind for kinds in idle for kind in kinds)
    if not idle:
        return ""
    return f"; hatched: no mask ({', '.join(mixers)})" if mixers else "; hatched: no attention"


def _nothing(patterns: Patterns) -> str:
    mixers = dict.fromkeys(kind for strip in patterns.strips for kinds in strip.unmasked for kind in kinds)
    mixed = f": {', '.join(mixers)} attention reads positions in order and has none" if mixers else ""
    return f"this architecture has no attention whose mask could be drawn{mixed}"


def edges(positions: int, cells: int) -> Integers:
    """Starts of cells, and the end: as many cells as positions, at most `cells`, as even as possible."""
    cells = min(cells, positions)
    return np.arange(cells + 1, dtype=np.int64) * positions // cells


def coverage(mask: Mask, queries: int, keys: int, prefix: int = 0, cells: int = 128) -> NDArray[np.float64]:
    """(rows, columns) shares between 0 and 1, from the mask's key ranges: a (T, S) matrix is never written."""
    rows, columns = edges(queries, cells), edges(keys, cells)
    together = max(1, ROWS * (len(rows) - 1) // queries)
    bands = [rows[i : i + together + 1] for i in range(0, len(rows) - 1, together)]
    pairs = np.concatenate([_pairs(mask, band, columns, keys, prefix) for band in bands])
    shares: NDArray[np.float64] = pairs / (np.diff(rows)[:, None] * np.diff(columns)[None])
    return shares


def _pairs(mask: Mask, rows: Integers, columns: Integers, keys: int, prefix: int) -> Integers:
    """Allowed pairs of each cell between edges of rows and columns."""
    query = np.arange(rows[0], rows[-1], dtype=np.int64)
    allowed, start = mask.ranges(query, keys, prefix), np.zeros_like(query)
    below = [(allowed & Ranges.plain(start, np.full_like(query, end), keys)).counts() for end in columns]
    return np.diff(np.stack([np.add.reduceat(counts, rows[:-1] - rows[0]) for counts in below], 1), axis=1)
