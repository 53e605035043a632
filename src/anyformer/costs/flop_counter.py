"""PyTorch's counter of FLOPs, with convolutions in groups counted as they are computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count


class FlopCounter(FlopCounterMode):
    """Counts as torch does, but for the gradient of the weight of a convolution in G groups.

    torch counts that as if every output read every input channel (torch 2.13), G times what is computed.
    """

    def __init__(self) -> None:
        super().__init__(display=False, custom_mapping={torch.ops.aten.convolution_backward: _backward})


def _backward(output: list[int], given: list[int], weight: list[int], *others: Any, **more: Any) -> int:
    """FLOPs of the gradients of a convolution's input and weight, from the shapes and arguments of the call."""
    *_, transposed, _, groups, wanted = others
    count: int = conv_flop_count(output, weight, given, not transposed) if wanted[0] else 0
    if wanted[1]:
        read, moved = (output, given) if transposed else (given, output)
        count += conv_flop_count(_turned(read), _turned(moved), _turned(weight)) // groups
    return count


def _turned(shape: Sequence[int]) -> list[int]:
    """The shape with rows and channels exchanged."""
    return [shape[1], shape[0], *shape[2:]]
