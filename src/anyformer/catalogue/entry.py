"""The entries of a lineage: named architectures with their sources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict

from anyformer.model import Architecture


class Size(TypedDict):
    """The numbers in which the sizes of one line differ."""

    width: int
    depth: int
    heads: int
    ffn: int


@dataclass(frozen=True)
class Entry:
    """A named architecture: the year of its source, in one line what it is, where its numbers stand, and how it is made."""

    name: str
    year: int
    summary: str
    source: str
    make: Callable[[], Architecture]
    stand_in: str | None = None
    """What is not public, and what was put in its place."""
    organisation: str | None = None
    """Who published it, where that is not who published the others of its lineage."""
