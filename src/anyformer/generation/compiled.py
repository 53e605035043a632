"""A compiled decode step, for jobs long enough to win the compile time back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from anyformer.generation.decode import Step, decode
from anyformer.model import Transformer
from anyformer.parts.stack import StackState

LONG_JOB = 4096
"""New tokens from which compiling pays: it takes tens of seconds and saves a few milliseconds per token."""
MULTIPLE = 128
"""Slots by which a compiled step's view of the memory grows: one compilation per so many tokens at most."""
FEW_ROWS = 2
"""Rows up to which a product with a matrix is bound by reading the matrix, so that a plain reduction beats a GEMM kernel."""


class ReductionForFewRows(TorchFunctionMode):
    """Inside, x W^T of a few rows on a CPU is written as sum(x * W): compiled, it streams W at the memory's speed.

    The sum runs in fp32 whatever the weights' type, so it is at least as exact as the kernel it replaces.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.linear and args[0].device.type == "cpu" and args[0].numel() <= FEW_ROWS * args[0].shape[-1]:
            return reduction(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def reduction(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """F.linear as one reduction: (..., I) and (O, I) -> (..., O)."""
    y = (x.float()[..., None, :] * weight.float()).sum(-1)
    return (y if bias is None else y + bias.float()).to(x.dtype)


def stepper(model: Transformer, max_tokens: int, compile: bool | None) -> tuple[Step, int]:
    """The decode step to use, and by how many slots its view of the memory should grow."""
    if compile or (compile is None and max_tokens >= LONG_JOB):
        return compiled_decode(), MULTIPLE
    return decode, 1


def compiled_decode() -> Callable[[Transformer, Tensor, StackState], Tensor]:
    """`decode`, compiled; the first call takes the time of a compilation."""

    def step(model: Transformer, tokens_B: Tensor, state: StackState) -> Tensor:
        with ReductionForFewRows():
            return decode(model, tokens_B, state)

    return torch.compile(step, dynamic=False, fullgraph=True)
