"""`Contract`: a question to an architecture, which architectures owe it, and what it presupposes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anyformer.model import Architecture
from anyformer.testing.traits import anything

Holds = Callable[[Architecture], None]


@dataclass(frozen=True)
class Contract:
    """A contract: `holds` raises if an architecture breaks it; `owed_by` tells whether an architecture owes it."""

    holds: Holds
    owed_by: Callable[[Architecture], bool] = anything
    needs: tuple[Holds, ...] = ()
    """Contracts without which this one says nothing new: where one of them is broken, this one is not asked."""
    about: str = ""
    """Words by which it is found too."""
    last: bool = False
    """Whether it is asked only where all others hold, since it takes seconds."""

    @property
    def name(self) -> str:
        """The name of its function."""
        return self.holds.__name__

    @property
    def presupposes(self) -> tuple[str, ...]:
        """The names of the contracts that it needs."""
        return tuple(each.__name__ for each in self.needs)
