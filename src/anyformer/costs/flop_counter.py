"""PyTorch's counter of FLOPs, with convolutions in groups counted as they are computed."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, conv_backward_flop, conv_flop_count


class FlopCounter(FlopCounterMode):
    """Counts as torch does, but for the gradient of the weight of a convolution in G groups.

    torch counts that as if every output read every input channel (torch 2.13), G times what is computed.
    """

    def __init__(self) -> None:
        super().__init__(display=False, custom_mapping={torch.ops.aten.convolution_backward: _backward})


def _backward(*shapes: Any, out_shape: Any = None, **others: Any) -> int:
    """FLOPs of the gradients of a convolution's input and weight, from the shapes and arguments of the call."""
    output, given, weight, *_, groups, wanted = shapes
    counted: int = conv_backward_flop.__wrapped__(*shapes, out_shape=out_shape, **others)
    if groups == 1 or not wanted[1]:
        return counted
    whole = conv_flop_count([given[1], given[0], *given[2:]], [output[1], output[0], *output[2:]], [0, 0, *weight[2:]])
    return counted - whole + whole // groups
