"""What autograd really keeps: every storage that it saves for backward and still holds, once, without parameters."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn


class Kept:
    """Tensors kept for backward, as they are at the moment of asking: a graph that is dropped keeps nothing.

    `where`: a label for what is kept from now on.
    """

    def __init__(self, model: nn.Module) -> None:
        self._parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
        self._handles: weakref.WeakSet[_Handle] = weakref.WeakSet()
        self._count = 0
        self.where = ""

    def pack(self, x: Tensor) -> _Handle:
        self._count += 1
        handle = _Handle(x.detach(), self.where, self._count)
        if x.untyped_storage().data_ptr() not in self._parameters:
            self._handles.add(handle)
        return handle

    @property
    def storages(self) -> dict[int, Tensor]:
        """A tensor of each storage, by address."""
        return {address: handle.tensor for address, handle in self._first.items()}

    @property
    def bytes(self) -> int:
        return sum(x.untyped_storage().nbytes() for x in self.storages.values())

    @property
    def by_label(self) -> dict[str, int]:
        """Bytes at the label under which each storage was kept first."""
        bytes: dict[str, int] = {}
        for handle in self._first.values():
            bytes[handle.where] = bytes.get(handle.where, 0) + handle.tensor.untyped_storage().nbytes()
        return bytes

    @property
    def _first(self) -> dict[int, _Handle]:
        """The first handle of each storage, by address."""
        latest_first = sorted(self._handles, key=lambda handle: -handle.number)
        return {handle.tensor.untyped_storage().data_ptr(): handle for handle in latest_first}


class _Handle:
    """What autograd holds in a tensor's place."""

    def __init__(self, tensor: Tensor, where: str, number: int) -> None:
        self.tensor, self.where, self.number = tensor, where, number


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


def kept_by_label(model: nn.Module, label: Callable[[str], str], forward: Callable[[], Tensor]) -> dict[str, int]:
    """The same by label: that of the innermost module of `model` that is computed, from its name; `label("")` outside.

    A module whose label is empty has none of its own: what it keeps goes to the one around it.
    """
    with keeping(model) as kept:
        kept.where = label("")
        before: list[str] = []

        def enter(where: str) -> Callable[..., None]:
            def hook(*_: object) -> None:
                before.append(kept.where)
                kept.where = where

            return hook

        def leave(*_: object) -> None:
            kept.where = before.pop()

        handles = []
        for name, module in model.named_modules():
            if name and (where := label(name)):
                handles += [module.register_forward_pre_hook(enter(where)), module.register_forward_hook(leave)]
        try:
            output = forward()
        finally:
            for handle in handles:
                handle.remove()
    assert output.requires_grad, "nothing is kept where nothing learns"
    return kept.by_label
