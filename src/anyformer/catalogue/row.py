"""A row of the table of architectures, as the index holds it. Nothing here imports torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ArchitectureRow:
    """Columns computed from a description. Words of layers that differ are joined in order of occurrence: `RoPE+NoPE`."""

    shape: str
    layers: int
    width: int
    norm: str
    placement: str
    """`pre`, `post`, `sandwich` (before and after every sublayer), `output` (after it)."""
    wiring: str
    """`serial` or `parallel` attention and feed-forward."""
    position: str
    activation: str
    attention: str
    window: str
    """How many positions back a query sees: `full`, `local 4096`."""
    experts: int
    """Experts of a layer, 0 in a dense network."""
    chosen: int
    """Experts that a token passes."""
    stability: tuple[str, ...]
    """Techniques for stable training."""
    parameters: int
    active: int
    """Parameters that one token uses."""


@dataclass(frozen=True)
class Listed:
    """One line of the index: an entry of `lineage`, the module that makes it."""

    name: str
    lineage: str
    organisation: str
    year: int
    columns: ArchitectureRow
    summary: str
    source: str
    stand_in: str | None
    training: tuple[str, ...] = ()
    """Techniques of stable training that belong to the loss: `z-loss`."""

    @classmethod
    def parse(cls, data: dict[str, Any]) -> Listed:
        """The entry of a line of the index."""
        columns = data["columns"]
        stability = tuple(columns["stability"])
        return cls(
            **data | {"columns": ArchitectureRow(**columns | {"stability": stability}), "training": tuple(data["training"])}
        )
