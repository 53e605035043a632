"""What autograd really keeps: every storage that `saved_tensors_hooks` meets, once, without parameters."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn


@contextlib.contextmanager
def keeping(model: nn.Module) -> Iterator[dict[int, Tensor]]:
    """Storages kept within, by address; they are held, so that no address comes back."""
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, Tensor] = {}

    def pack(x: Tensor) -> Tensor:
        address = x.untyped_storage().data_ptr()
        if address not in parameters:
            kept[address] = x
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        yield kept


def kept_bytes(model: nn.Module, forward: Callable[[], Tensor]) -> tuple[int, dict[int, Tensor]]:
    """Bytes that a forward pass keeps, and what they are."""
    with keeping(model) as kept:
        output = forward()
    assert output.requires_grad
    return sum(x.untyped_storage().nbytes() for x in kept.values()), kept
