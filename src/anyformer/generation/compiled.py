"""A compiled decode step, for jobs long enough to win the compile time back."""

from __future__ import annotations

import torch

from anyformer.generation.decode import Step, decode
from anyformer.model import Transformer

LONG_JOB = 4096
"""New tokens from which compiling pays: it takes tens of seconds and saves a few milliseconds per token."""
MULTIPLE = 128
"""Slots by which a compiled step's view of the memory grows: one compilation per so many tokens at most."""


def stepper(model: Transformer, max_tokens: int, compile: bool | None) -> tuple[Step, int]:
    """The decode step to use, and by how many slots its view of the memory should grow."""
    if compile or (compile is None and max_tokens >= LONG_JOB):
        return torch.compile(decode, dynamic=False, fullgraph=True), MULTIPLE
    return decode, 1
