"""What enters a graph and leaves it, by the names and axes that readers of such graphs know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

BATCH: Final = "batch_size"
LENGTH: Final = "sequence_length"
PAST: Final = "past_sequence_length"
TOTAL: Final = "total_sequence_length"
SOURCE: Final = "encoder_sequence_length"
PAST_SOURCE: Final = "past_encoder_sequence_length"
FRAMES: Final = "num_frames"
SAMPLES: Final = "num_samples"
TRACED: Final = {BATCH: 2, LENGTH: 5, PAST: 3, TOTAL: 8, SOURCE: 7, PAST_SOURCE: 4, FRAMES: 18, SAMPLES: 1600}
"""Axis -> its size while a graph is made, which it may leave in any call."""


@dataclass(frozen=True)
class Port:
    """A tensor that enters a graph: a number is a fixed size, a name one that may differ from call to call."""

    name: str
    shape: tuple[int | str, ...]
    dtype: torch.dtype

    @property
    def axes(self) -> dict[int, str]:
        """The axes whose sizes may differ, by number."""
        return {number: size for number, size in enumerate(self.shape) if isinstance(size, str)}

    def example(self) -> Tensor:
        """Zeros, or the ones of a mask without padding, of the traced sizes."""
        sizes = [TRACED[size] if isinstance(size, str) else size for size in self.shape]
        return torch.ones(sizes, dtype=self.dtype)
