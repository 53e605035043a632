"""The contracts that every part keeps, and the limits of parts that cannot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Contract = Literal["causal", "chunked", "packed", "padded", "cached", "stepwise"]
"""The contracts that every part keeps unless it declares a limit.

`causal`: no token sees a later one. `chunked`: prefill in pieces equals the whole. `packed`: documents in one row equal
each alone. `padded`: a padded row equals the row alone. `cached`: decoding with state equals recomputing. `stepwise`:
tokens can be read one by one, equal to recomputing or not, since no position waits for later ones.
"""


@dataclass(frozen=True)
class Limit:
    """A contract that a part breaks by its mathematics, and why."""

    contract: Contract
    reason: str
    in_training: bool = False
    """Whether the contract is broken in training only."""
    beyond: int | None = None
    """The most positions of a text for which the contract holds; None: it holds for none."""
    read_again: bool = False
    """Whether a decode state serves for longer texts too, if the text is read again when it comes to be longer."""

    @classmethod
    def each(cls, reason: str, *contracts: Contract, in_training: bool = False, beyond: int | None = None) -> tuple[Limit, ...]:
        """The limits of several contracts that are broken for one reason."""
        return tuple(cls(contract, reason, in_training, beyond) for contract in contracts)
