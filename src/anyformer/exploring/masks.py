"""The masks of an architecture at a length, as few bytes: per pattern a grid of the shares of pairs that it allows."""

from __future__ import annotations

from base64 import b64encode
from functools import lru_cache
from typing import Any

import numpy as np

from anyformer.model import Architecture
from anyformer.pictures.masks import coverage
from anyformer.pictures.patterns import Pattern, patterns_of, telling_length

CELLS = 64
"""Cells of a side at most."""
LONGEST = 1 << 17
"""Positions at which masks are still counted within a second; longer calls show the masks of this length."""


def masks_data(architecture: Architecture, length: int | None = None) -> dict[str, Any]:
    """Every pattern with its layers at a length, by default one that shows it, or at the longest that is drawn."""
    length = min(telling_length(architecture) if length is None else length, LONGEST)
    patterns = patterns_of(architecture, length)
    strips = [
        {
            "stack": strip.stack, "title": strip.title, "variants": list(strip.variants),
            "layers": list(map(list, strip.layers)), "unmasked": list(map(list, strip.unmasked)),
        }
        for strip in patterns.strips
    ]  # fmt: skip
    drawn = [
        {**_grid(pattern), "places": list(places), "holders": patterns.holders(number)}
        for number, (pattern, places) in enumerate(patterns.places.items())
    ]
    return {"length": length, "patterns": drawn, "strips": strips}


@lru_cache(maxsize=128)
def _grid(pattern: Pattern) -> dict[str, Any]:
    """`cells`: a byte per cell, row by row, 255 where all pairs of it are allowed; a cell with any is never 0."""
    shares = coverage(pattern.mask, pattern.queries, pattern.keys, pattern.prefix, CELLS)
    cells = np.ceil(shares * 255).astype(np.uint8)
    rows, columns = cells.shape
    return {
        "title": pattern.title, "pairs": pattern.pairs, "share": pattern.share, "queries": pattern.queries,
        "keys": pattern.keys, "prefix": pattern.prefix, "across": pattern.across, "rows": rows, "columns": columns,
        "cells": b64encode(cells.tobytes()).decode(),
    }  # fmt: skip
