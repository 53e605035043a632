"""What must hold of every drawing: nothing is cut, no text leaves its box, nothing overlaps, no line strikes text through."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from anyformer.pictures.diagram.shapes import Box, Cells, Drawing, Mark, Polyline, TextLine

NEAR = 0.05
"""Points by which two edges may touch."""


def faults(drawing: Drawing) -> list[str]:
    """Every breach, in words."""
    boxes = [shape for shape in drawing.shapes if isinstance(shape, Box)]
    words = [shape for shape in drawing.shapes if isinstance(shape, TextLine)]
    cells = [shape for shape in drawing.shapes if isinstance(shape, Cells)]
    lines = [shape for shape in drawing.shapes if isinstance(shape, Polyline)]
    box, word, cell = (_extents(shapes) for shapes in (boxes, words, cells))
    found = []
    page = np.array([[0, 0, drawing.width, drawing.height]])
    for shapes, extents in ((boxes, box), (words, word), (cells, cell)):
        found += [f"cut: {shapes[i]}" for i in np.flatnonzero(~_within(extents, page)[:, 0])]
    nested = _apart(box, box) | _within(box, box) | _within(box, box).T
    found += [f"boxes overlap: {boxes[i]} and {boxes[j]}" for i, j in np.argwhere(~nested) if i < j]
    fits = _apart(word, box) | _within(word, box)
    found += [f"text leaves its box: {words[i]} and {boxes[j]}" for i, j in np.argwhere(~fits)]
    clear = _apart(word, word) | np.eye(len(words), dtype=bool)
    found += [f"texts overlap: {words[i]} and {words[j]}" for i, j in np.argwhere(~clear) if i < j]
    found += [f"text over cells: {words[i]} and {cells[j]}" for i, j in np.argwhere(~_apart(word, cell))]
    found += [f"cells leave their box: {cells[i]}" for i, j in np.argwhere(~(_apart(cell, box) | _within(cell, box)))]
    segments = [(line, a, b) for line in lines for a, b in pairwise(line.points)]
    assert all(a[0] == b[0] or a[1] == b[1] for _, a, b in segments), "lines run along the axes"
    spans = np.array([[min(a[0], b[0]), min(a[1], b[1]), max(a[0], b[0]), max(a[1], b[1])] for _, a, b in segments])
    place = {id(shape): i for i, shape in enumerate(drawing.shapes)}
    for i, j in np.argwhere(~_apart(spans, word)):
        line, over = segments[i][0], [boxes[k] for k in np.flatnonzero(_within(word[j : j + 1], box)[0])]
        hides = [each for each in over if not each.frame and (line.behind or place[id(each)] > place[id(line)])]
        found += [] if hides else [f"struck through: {words[j]} by {line}"]
    return found


def untouched(drawing: Drawing) -> list[str]:
    """Boxes that no line touches: nothing says what they are for. Names of kinds and colours of differences are no parts, and
    what alone fills a sublayer (a table that is looked up) needs no line."""
    boxes = [shape for shape in drawing.shapes if isinstance(shape, Box) and not shape.frame]
    parts = [box for box in boxes if box.tone != "differs" and not box.tone.startswith("kind ")]
    lines = [shape for shape in drawing.shapes if isinstance(shape, Polyline)]
    segments = [(a, b) for line in lines for a, b in pairwise(line.points)]
    spans = np.array([[min(a[0], b[0]), min(a[1], b[1]), max(a[0], b[0]), max(a[1], b[1])] for a, b in segments])
    grown = _extents(parts) + np.array([-NEAR, -NEAR, NEAR, NEAR]) * 2
    touched = ~_apart(grown, spans)
    inside = _within(spans, _extents(parts) + np.array([NEAR, NEAR, -NEAR, -NEAR]) * 2).T
    held = _within(_extents(parts), _extents(parts)) & ~np.eye(len(parts), dtype=bool)
    alone = (held & (held.sum(0) == 1)).any(1)
    joined = (touched & ~inside).any(1)
    return [f"touches nothing: {parts[i]}" for i in np.flatnonzero(~joined & ~alone)]


def marks(drawing: Drawing, sign: str) -> list[Mark]:
    return [shape for shape in drawing.shapes if isinstance(shape, Mark) and shape.sign == sign]


def texts(drawing: Drawing) -> list[str]:
    return [shape.says for shape in drawing.shapes if isinstance(shape, TextLine)]


def _extents(shapes: list) -> np.ndarray:
    return np.array([shape.extent for shape in shapes]).reshape(-1, 4)


def _within(inner: np.ndarray, outer: np.ndarray) -> np.ndarray:
    """(inner, outer)"""
    a, b = inner[:, None], outer[None]
    low = (a[..., :2] >= b[..., :2] - NEAR).all(-1)
    return low & (a[..., 2:] <= b[..., 2:] + NEAR).all(-1)


def _apart(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    a, b = left[:, None], right[None]
    return (a[..., 2:] <= b[..., :2] + NEAR).any(-1) | (b[..., 2:] <= a[..., :2] + NEAR).any(-1)
