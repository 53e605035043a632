"""A mask at any length on a grid of few cells, each with the exact share of its pairs that the mask allows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anyformer.parts.masks.mask import Mask
from anyformer.parts.masks.ranges import Integers, Ranges

ROWS = 1 << 16
"""Queries counted together, which bounds the memory."""


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
