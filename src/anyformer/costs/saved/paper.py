"""Tensors on paper: sizes, types and strides of a processor's tensors, and no numbers.

Torch's own fake tensors do so too, and import its compiler, which takes as long as torch itself; these run every operation on
the meta device and look like a processor's tensors from above, so that autocast, autograd and kernels are a processor's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from anyformer.costs.saved.layouts import laid_out

META, CPU = torch.device("meta"), torch.device("cpu")


class PaperTensor(Tensor):
    """A tensor with the device, type, sizes and strides of a processor's tensor; `meta` has its storage."""

    meta: Tensor

    @staticmethod
    def __new__(cls, meta: Tensor) -> PaperTensor:
        made = Tensor._make_wrapper_subclass(
            cls, meta.size(), strides=meta.stride(), storage_offset=meta.storage_offset(), dtype=meta.dtype, device=CPU
        )
        made.meta = meta
        return made

    @classmethod
    def __torch_dispatch__(cls, operator, types, args=(), kwargs=None):  # type: ignore[no-untyped-def,override]
        raise AssertionError("tensors on paper are read inside `Paper` alone")

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    def __repr__(self, **_: object) -> str:  # type: ignore[override]
        return f"PaperTensor({tuple(self.shape)}, {self.dtype})"


class Paper(TorchDispatchMode):
    """Inside, every operation computes sizes alone, and `seen` is called with its inputs and outputs."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._real: dict[int, tuple[Tensor, Tensor]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False, because True, which torch's compiler asks, would import that compiler, which takes a second."""
        return False

    def seen(self, operator: Any, read: list[Tensor], made: list[Tensor]) -> None:
        """Called after an operation with the tensors that it read and made, all on the meta device."""

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        call = _PaperCall(self._on_paper, self.begins)
        given = call.down(args)
        more = {name: META if isinstance(x, torch.device) else call.down(x) for name, x in (kwargs or {}).items()}
        if not call.read and _makes(operator):
            more["device"] = META
        made = laid_out(operator, given, more)
        result = call.up(operator(*given, **more) if made is None else made)
        self.seen(operator, call.read, call.made)
        return result

    def begins(self, x: PaperTensor) -> None:
        """Called for every tensor that an operation makes."""

    def _on_paper(self, x: Tensor) -> Tensor:
        """A tensor with a real tensor's sizes, always the same one for a real tensor."""
        if x.is_meta:
            return x
        if id(x) not in self._real:
            self._real[id(x)] = x, torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=META)
        return self._real[id(x)][1]


class _PaperCall:
    """The tensors that one operation read and made, on the meta device."""

    def __init__(self, on_paper: Callable[[Tensor], Tensor], begins: Callable[[PaperTensor], None]) -> None:
        self.read: list[Tensor] = []
        self.made: list[Tensor] = []
        self._on_paper, self._begins = on_paper, begins
        self._given: dict[int, Tensor] = {}

    def down(self, x: Any) -> Any:
        if isinstance(x, Tensor):
            meta = x.meta if isinstance(x, PaperTensor) else self._on_paper(x)
            self._given[id(meta)] = x
            self.read.append(meta)
            return meta
        return type(x)(map(self.down, x)) if isinstance(x, list | tuple) else x

    def up(self, x: Any) -> Any:
        """The outputs on paper; an output computed in place is the input itself."""
        if isinstance(x, Tensor):
            self.made.append(x)
            if id(x) in self._given:
                return self._given[id(x)]
            made = PaperTensor(x)
            self._begins(made)
            return made
        return type(x)(map(self.up, x)) if isinstance(x, list | tuple) else x


@cache
def _makes(operator: Any) -> bool:
    """Whether an operator makes a tensor on a device that is an argument of it."""
    return any(argument.name == "device" for argument in operator._schema.arguments)


def address(x: Tensor) -> int:
    """The address of a tensor's storage, unique as long as the storage lives."""
    return int(x.untyped_storage()._cdata)


def put_on_paper(module: torch.nn.Module, learns: Callable[[str], bool]) -> dict[str, torch.nn.Parameter]:
    """Make the parameters of a module on the meta device parameters on paper, inside `Paper`.

    `learns`: whether the parameter of a path takes a gradient.
    """
    made: dict[int, torch.nn.Parameter] = {}
    for path, parameter in module.named_parameters():
        made[id(parameter)] = torch.nn.Parameter(parameter.detach(), requires_grad=parameter.requires_grad and learns(path))
    by_path = {path: made[id(parameter)] for path, parameter in module.named_parameters()}
    for holder in module.modules():
        for name, own in holder._parameters.items():
            if own is not None and id(own) in made:
                holder._parameters[name] = made[id(own)]
    return by_path
