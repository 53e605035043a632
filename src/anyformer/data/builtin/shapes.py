"""Pictures of coloured shapes with what is to be seen on them: a caption, boxes, and a question with its answer.

`shapes`: `image` (3, 24, 24), `text` ('a red circle left of a blue square') and `boxes`, each with a `label` ('red circle') and
a `box`, the first column and row and those behind the last. `shapes-questions`: the same pictures with `question` and `answer`.
Everything follows from the number of a picture, by hashes, so that it is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anyformer.data.builtin.source import Builtin, Values, draw
from anyformer.data.sources import SourceFile, find_sources

SIDE, PICTURES = 24, 4096
"""Pixels of a side, and the number of pictures."""
COLOURS = {"red": (220, 40, 40), "green": (40, 200, 60), "blue": (60, 90, 230), "yellow": (230, 220, 50)}
FORMS = ("circle", "square", "triangle", "cross")
_CELL = SIDE // 2
_LEAST, _MOST = 3, 5
"""Pixels from a shape's centre to its edge."""
_BESIDE = {(0, 1): ("left of", "right of"), (1, 0): ("above", "below")}
"""From the first shape's cell to the second's: how the first one stands to the second, and the reverse."""
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class DrawnShape:
    """A shape of one colour in the cell (row, column) of four; `down`, `right` and `size` in pixels."""

    form: str
    colour: str
    cell: tuple[int, int]
    down: int
    right: int
    size: int

    @property
    def name(self) -> str:
        """`red circle`."""
        return f"{self.colour} {self.form}"

    @property
    def mask(self) -> Mask:
        """(SIDE, SIDE): its pixels."""
        row, column = (
            place * _CELL + _CELL // 2 + moved for place, moved in zip(self.cell, (self.down, self.right), strict=True)
        )
        y, x = np.mgrid[:SIDE, :SIDE] + 0.5
        return inside(self.form, y - row, x - column, self.size)

    @property
    def box(self) -> list[int]:
        """[first column, first row, column behind the last, row behind the last]."""
        rows, columns = (np.flatnonzero(self.mask.any(axis)) for axis in (1, 0))
        return [int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1]


def inside(form: str, y: NDArray[np.float64], x: NDArray[np.float64], size: float) -> Mask:
    """Which points of a plane are in a shape around its origin, `size` to the edge; y grows downwards."""
    match form:
        case "circle":
            found = x**2 + y**2 <= size**2
        case "square":
            found = np.maximum(abs(x), abs(y)) <= 0.85 * size
        case "triangle":
            found = (abs(y) <= size) & (abs(x) <= (y + size) / 2)
        case "cross":
            found = (np.minimum(abs(x), abs(y)) <= 0.35 * size) & (np.maximum(abs(x), abs(y)) <= size)
        case _:
            raise AssertionError(form)
    return np.asarray(found)


def shapes_of(number: int) -> tuple[DrawnShape, ...]:
    """The shapes of a picture: one in every fourth, else two of different names, side by side or one above the other."""

    def drawn(words: str, count: int) -> int:
        return draw(f"shapes {number} {words}", count)

    first = drawn("first", len(FORMS) * len(COLOURS))
    names = [first] if number % 4 == 0 else [first, (first + 1 + drawn("second", 15)) % 16]
    cells = [(drawn("row", 2), drawn("column", 2))]
    if len(names) == 2:
        row, column = cells[0]
        cells.append((row, 1 - column) if drawn("beside", 2) else (1 - row, column))
    found = []
    for place, (name, cell) in enumerate(zip(names, cells, strict=True)):
        size = _LEAST + drawn(f"size {place}", _MOST - _LEAST + 1)
        down, right = (drawn(f"{way} {place}", 2 * (_MOST - size) + 1) - (_MOST - size) for way in ("down", "right"))
        found.append(DrawnShape(FORMS[name % 4], list(COLOURS)[name // 4], cell, down, right, size))
    return tuple(found)


def picture_of(number: int, shapes: tuple[DrawnShape, ...]) -> NDArray[np.uint8]:
    """(3, SIDE, SIDE): the shapes on a dark ground, every colour of the picture a little lighter or darker."""
    image = np.full((3, SIDE, SIDE), draw(f"shapes {number} ground", 48), dtype=np.int64)
    for place, shape in enumerate(shapes):
        lighter = draw(f"shapes {number} light {place}", 61) - 30
        image = np.where(shape.mask, np.array(COLOURS[shape.colour])[:, None, None] + lighter, image)
    return image.clip(0, 255).astype(np.uint8)


def caption_of(shapes: tuple[DrawnShape, ...]) -> str:
    """`a red circle left of a blue square`."""
    if len(shapes) == 1:
        return f"a {shapes[0].name}"
    first, second = shapes
    return f"a {first.name} {_stands(first, second)} a {second.name}"


def question_of(number: int, shapes: tuple[DrawnShape, ...]) -> tuple[str, str]:
    """A question about a picture, and its answer."""
    asked = shapes[draw(f"shapes {number} asked", len(shapes))]
    alike = sum(each.form == asked.form for each in shapes)
    match draw(f"shapes {number} question", 4):
        case 0 if alike == 1:
            return f"what colour is the {asked.form}?", asked.colour
        case 1:
            return "how many shapes are there?", ("one", "two")[len(shapes) - 1]
        case 2 if len(shapes) == 2:
            other = shapes[1] if asked is shapes[0] else shapes[0]
            return f"what is {_stands(asked, other)} the {other.name}?", f"a {asked.name}"
    wanted = asked.colour if draw(f"shapes {number} there", 2) else list(COLOURS)[draw(f"shapes {number} other", 4)]
    there = any((each.form, each.colour) == (asked.form, wanted) for each in shapes)
    return f"is there a {wanted} {asked.form}?", "yes" if there else "no"


def _stands(first: DrawnShape, second: DrawnShape) -> str:
    """How the first shape stands to the second."""
    way = tuple(there - here for here, there in zip(first.cell, second.cell, strict=True))
    return _BESIDE[way][0] if way in _BESIDE else _BESIDE[(-way[0], -way[1])][1]


def drawing() -> list[SourceFile]:
    """This file, of which all pictures are made: another drawing is other data."""
    return find_sources([__file__])


def _captioned(source: SourceFile) -> Iterator[Values]:
    for number in range(PICTURES):
        shapes = shapes_of(number)
        boxes = [{"label": each.name, "box": each.box} for each in shapes]
        yield number + 1, {"image": picture_of(number, shapes), "text": caption_of(shapes), "boxes": boxes}


def _boxed(source: SourceFile) -> Iterator[Values]:
    for number in range(PICTURES // 2):
        (shape,) = shapes_of(4 * number)
        sides = dict(zip(("left", "top", "right", "bottom"), shape.box, strict=True))
        yield number + 1, {"image": picture_of(4 * number, (shape,)), "label": shape.name, **sides}


def _asked(source: SourceFile) -> Iterator[Values]:
    for number in range(PICTURES):
        shapes = shapes_of(number)
        question, answer = question_of(number, shapes)
        yield number + 1, {"image": picture_of(number, shapes), "question": question, "answer": answer}


SHAPES = Builtin(
    "shapes", "Captions: pictures of coloured shapes, 24 x 24, with what stands where, and boxes.", _captioned, drawing
)
SHAPE_BOXES = Builtin("shape-boxes", "Images with numbers: a coloured shape, 24 x 24, its name and its box.", _boxed, drawing)
SHAPES_QUESTIONS = Builtin(
    "shapes-questions",
    "Questions about images: the pictures of `shapes`, each with a question and its answer.",
    _asked,
    drawing,
)
