"""Operators whose steps are counted: on the device `meta` their products run one by one, where a counter sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Outputs = tuple[torch.Tensor, ...]


def counted(
    forward: Callable[..., Outputs], keep: Callable[[Any, Any, Any], None], gradients: Callable[..., tuple[Any, ...]]
) -> Callable[..., Any]:
    """An operator of the same inputs and outputs, whose forward and backward passes are the steps of the functions.

    `keep` and `gradients` are what `torch.library.custom_op` takes as `setup_context` and `backward`.
    """

    class Counted(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Outputs:
            outputs = forward(*inputs)
            keep(ctx, inputs, outputs)
            return outputs

        @staticmethod
        def backward(ctx: Any, *d_outputs: torch.Tensor | None) -> Any:
            return gradients(ctx, *d_outputs)

    return Counted.apply
