"""Measured bytes for backward: every storage that autograd saves and still holds, once, without parameters."""

from __future__ import annotations

import contextlib
import weakref
from collections import Counter
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn


class SavedStorages:
    """Storages that autograd holds for backward at the moment of asking: a graph that is dropped holds none.

    `label`: that of the storages saved from now on.
    """

    def __init__(self, model: nn.Module) -> None:
        self._parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
        self._handles: weakref.WeakSet[_Handle] = weakref.WeakSet()
        self._count = 0
        self.label = ""

    def pack(self, x: Tensor) -> _Handle:
        self._count += 1
        handle = _Handle(x.detach(), self.label, self._count)
        if x.untyped_storage().data_ptr() not in self._parameters:
            self._handles.add(handle)
        return handle

    @property
    def storages(self) -> dict[int, Tensor]:
        """A tensor of each storage, by address."""
        return {address: handle.tensor for address, handle in self._first.items()}

    @property
    def by_label(self) -> dict[str, int]:
        """Bytes at the label under which each storage was saved first."""
        bytes = Counter[str]()
        for handle in self._first.values():
            bytes[handle.label] += handle.tensor.untyped_storage().nbytes()
        return bytes

    @property
    def _first(self) -> dict[int, _Handle]:
        """The first handle of each storage, by address."""
        latest_first = sorted(self._handles, key=lambda handle: -handle.number)
        return {handle.tensor.untyped_storage().data_ptr(): handle for handle in latest_first}


class _Handle:
    """The object that autograd holds in a tensor's place."""

    def __init__(self, tensor: Tensor, label: str, number: int) -> None:
        self.tensor, self.label, self.number = tensor, label, number


@contextlib.contextmanager
def watching_saved(model: nn.Module) -> Iterator[SavedStorages]:
    """The storages that operations within save, beside the parameters of `model`."""
    saved = SavedStorages(model)
    with torch.autograd.graph.saved_tensors_hooks(saved.pack, lambda handle: handle.tensor):
        yield saved


def saved_bytes(model: nn.Module, forward: Callable[[], Tensor]) -> int:
    """Bytes that a forward pass saves for the backward pass of its output."""
    return sum(saved_by_label(model, lambda _: "", forward).values())


def saved_by_label(model: nn.Module, label: Callable[[str], str], forward: Callable[[], Tensor]) -> dict[str, int]:
    """Bytes that a forward pass saves, by the label of the innermost module that computes; `label("")` outside of all.

    `label`: from the name of a module of `model`; one with an empty label adds to the module around it.
    """
    with watching_saved(model) as saved:
        saved.label = label("")
        outer: list[str] = []

        def enter(own: str) -> Callable[..., None]:
            def hook(*_: object) -> None:
                outer.append(saved.label)
                saved.label = own

            return hook

        def leave(*_: object) -> None:
            saved.label = outer.pop()

        handles = []
        for name, module in model.named_modules():
            if name and (own := label(name)):
                handles += [module.register_forward_pre_hook(enter(own)), module.register_forward_hook(leave)]
        try:
            output = forward()
        finally:
            for handle in handles:
                handle.remove()
    assert output.requires_grad, "nothing is saved where nothing learns"
    return saved.by_label
