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
    """A named architecture: year, summary in one line, source of its numbers, and the function that makes it."""

    name: str
    year: int
    summary: str
    source: str
    make: Callable[[], Architecture]
    stand_in: str | None = None
    """The facts that are not public, and those put in their place."""
    organisation: str | None = None
    """Its publisher, if not that of the others of its lineage."""
    training: tuple[str, ...] = ()
    """Techniques of stable training that belong to its loss and not to its description: `z-loss`."""
