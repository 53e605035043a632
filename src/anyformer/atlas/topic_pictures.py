"""Pictures of topics: masks as shares of allowed pairs, and compact diagrams as SVG."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from anyformer.catalogue import architecture
from anyformer.pictures.diagram import diagram
from anyformer.pictures.diagram.svg import svg
from anyformer.pictures.masks import coverage
from anyformer.pictures.patterns import patterns_of, telling_length

CELLS = 32


@dataclass(frozen=True)
class MaskPicture:
    """A mask of an entry at a length; `rows`: a line of digits per row of cells, the tenths of its pairs that are allowed."""

    entry: str
    title: str
    layers: str
    length: int
    share: float
    rows: tuple[str, ...]


@cache
def mask_pictures(names: tuple[str, ...]) -> tuple[MaskPicture, ...]:
    """Every distinct mask of some entries, at a length that shows its pattern."""
    return tuple(picture for name in names for picture in _of(name))


def _of(name: str) -> Iterator[MaskPicture]:
    made = architecture(name)
    length = telling_length(made)
    patterns = patterns_of(made, length)
    for number, pattern in enumerate(patterns.places):
        shares = coverage(pattern.mask, pattern.queries, pattern.keys, pattern.prefix, CELLS)
        rows = tuple("".join(str(min(9, round(share * 9))) for share in row) for row in shares)
        yield MaskPicture(name, pattern.title, patterns.holders(number), length, pattern.share, rows)


@dataclass(frozen=True)
class DiagramPicture:
    """The compact diagram of an entry, as the text of an SVG file."""

    entry: str
    svg: str


@cache
def diagram_pictures(names: tuple[str, ...]) -> tuple[DiagramPicture, ...]:
    """The diagrams of some entries."""
    return tuple(DiagramPicture(name, svg(diagram({name: architecture(name)}, compact=True))) for name in names)
