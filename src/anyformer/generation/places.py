"""Places for texts that go on: the one way in which the choice of tokens asks for logits, whatever computes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor


class TextPlaces(Protocol):
    """The memory of some texts at a time: a prompt is read at a free place, and goes on there beside the others."""

    @property
    def count(self) -> int:
        """How many texts go on together."""
        ...

    @property
    def device(self) -> torch.device:
        """Where logits are given."""
        ...

    def enter(self, at: Sequence[int], numbers: Sequence[int]) -> Tensor:
        """Read prompts, given by their numbers, at places that are free; the logits of their next tokens, (n, V).

        The first prompts fill all places.
        """
        ...

    def advance(self, tokens: Sequence[int]) -> Tensor:
        """Read one more token at every place, (B,); the logits of the next, (B, V), which mean nothing where a place is free.

        They are good until the next call.
        """
        ...

    def leave(self, at: Sequence[int]) -> None:
        """Free places whose texts have ended."""
        ...


PlaceMaker = Callable[[Sequence[Sequence[int]], int, int], TextPlaces]
"""Places for prompts: at most so many of them at a time, each of which goes on by at most so many tokens."""
RowReader = Callable[[Sequence[Sequence[int]], Sequence[int]], Iterator[Tensor]]
"""Of texts that do not go on: the logits after the last so many tokens of each, (n, V), one behind the other."""
