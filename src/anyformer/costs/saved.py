"""What autograd really keeps: every storage that it saves for backward and still holds, once, without parameters."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn


class Kept:
    """Tensors kept for backward, as they are at the moment of asking: a graph that is dropped keeps nothing."""

    def __init__(self, model: nn.Module) -> None:
        self._parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
        self._handles: weakref.WeakSet[_Handle] = weakref.WeakSet()

    def pack(self, x: Tensor) -> _Handle:
        handle = _Handle(x.detach())
        if x.untyped_storage().data_ptr() not in self._parameters:
            self._handles.add(handle)
        return handle

    @property
    def storages(self) -> dict[int, Tensor]:
        """A tensor of each storage, by address."""
        return {handle.tensor.untyped_storage().data_ptr(): handle.tensor for handle in self._handles}

    @property
    def bytes(self) -> int:
        return sum(x.untyped_storage().nbytes() for x in self.storages.values())


class _Handle:
    """What autograd holds in a tensor's place."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


@contextlib.contextmanager
def keeping(model: nn.Module) -> Iterator[Kept]:
    """What is kept by operations within, beside the parameters of `model`."""
    kept = Kept(model)
    with torch.autograd.graph.saved_tensors_hooks(kept.pack, lambda handle: handle.tensor):
        yield kept


def kept_bytes(model: nn.Module, forward: Callable[[], Tensor]) -> int:
    """Bytes that a forward pass keeps for the backward pass of what it gives."""
    with keeping(model) as kept:
        output = forward()
    assert output.requires_grad, "nothing is kept where nothing learns"
    return kept.bytes
