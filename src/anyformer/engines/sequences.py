"""Texts that come and go one by one in the memory of an engine: what a server asks of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from torch import Tensor


class TextSequences(Protocol):
    """Memory of texts in numbered rows, taken once. Logits that it gives are good until it is asked for others."""

    @property
    def length(self) -> int:
        """Tokens that each row has room for."""
        ...

    def read(self, row: int, tokens: Sequence[int], last: int) -> Tensor:
        """Read further tokens of one text; the logits after the last so many of them, (n, V)."""
        ...

    def advance(self, tokens: Mapping[int, int]) -> dict[int, Tensor]:
        """Read a token of every given row, all in one pass; by row the logits of its next, (1, V)."""
        ...

    def forget(self, row: int) -> None:
        """Free a row."""
        ...


SequenceMaker = Callable[[int, int], TextSequences]
"""Memory of so many texts of so many tokens each. Raises `EngineRefusedError` where it cannot be had."""
