"""What the command knows of an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.engines.row import Row
from benchmarks.engines.scratch import Scratch


@dataclass(frozen=True)
class Engine:
    """`names`: what is compared, in the order of the table. `packages`: of its environment, whose versions are written, the
    engine's own first. `rows`: compare those that the scratch names, and give every row when it is there. `close`: what numbers
    may differ by."""

    names: tuple[str, ...]
    packages: tuple[str, ...]
    rows: Callable[[Scratch], Iterator[Row]]
    close: float = 1e-4
