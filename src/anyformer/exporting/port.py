"""What enters a graph and leaves it, by the names and axes that readers of such graphs know."""

from __future__ import annotations

from collections.abc import Mapping
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
_IDS = 10
"""Ids of tokens in examples are below this."""


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

    def example(self, sizes: Mapping[str, int] = TRACED, seed: int = 0) -> Tensor:
        """Random numbers, small ids of tokens, the ones of a mask without padding, or zeros for kinds of segments."""
        shape = [sizes[size] if isinstance(size, str) else size for size in self.shape]
        generator = torch.Generator().manual_seed(seed)
        if self.dtype.is_floating_point:
            return torch.randn(shape, generator=generator).to(self.dtype)
        if self.name == "input_ids":
            return torch.randint(0, _IDS, shape, generator=generator)
        return torch.full(shape, int(self.name.endswith("mask")))
