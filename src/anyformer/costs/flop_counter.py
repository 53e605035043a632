"""FLOPs by torch's own formulas, of operations on the meta device whose sizes are worked out once.

Torch's `FlopCounterMode` gives the same sum, and FLOPs by module beside it. It runs torch's meta operators,
written in Python, and watches every module: that takes two to four times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count, flop_registry, shape_wrapper

from anyformer.costs.saved.layouts import laid_out


def _convolution_backward(output: list[int], given: list[int], weight: list[int], *others: Any, **more: Any) -> int:
    """FLOPs of the gradients of a convolution's input and weight, from the shapes and arguments of the call.

    Of the weight's gradient torch 2.13 counts a convolution in G groups as if every output read every input channel, which is G
    times what is computed.
    """
    *_, transposed, _, groups, wanted = others
    count: int = conv_flop_count(output, weight, given, not transposed) if wanted[0] else 0
    if wanted[1]:
        read, moved = (output, given) if transposed else (given, output)
        count += conv_flop_count(_turned(read), _turned(moved), _turned(weight)) // groups
    return count


def _turned(shape: Sequence[int]) -> list[int]:
    """The shape with rows and channels exchanged."""
    return [shape[1], shape[0], *shape[2:]]


_OWN = {torch.ops.aten.convolution_backward: _convolution_backward}
"""Formulas of shapes in the place of torch's."""
_FORMULAS = {packet: shape_wrapper(formula) for packet, formula in _OWN.items()}  # type: ignore[no-untyped-call]


def flops_by_module() -> FlopCounterMode:
    """Torch's own counter, which tells FLOPs by module."""
    return FlopCounterMode(display=False, custom_mapping=_OWN)


class MetaFlops(TorchDispatchMode):
    """Inside, `total` grows by the FLOPs of every operation: 2 per multiply-accumulate of products, 0 of others."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False, because True, which torch's compiler asks, would import that compiler, which takes a second."""
        return False

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        more = kwargs or {}
        packet = operator._overloadpacket
        formula = _FORMULAS.get(packet) or flop_registry.get(packet)
        if formula is None and _is_composed(operator):
            with self:
                return operator.decompose(*args, **more)
        made = laid_out(operator, args, more) if _on_meta(args, more) else None
        result = operator(*args, **more) if made is None else made
        if formula is not None:
            self.total += formula(*args, **more, out_val=result)
        return result


@cache
def _is_composed(operator: Any) -> bool:
    """Whether an operator is others, one after another, of which each is counted."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CompositeImplicitAutograd"))


def _on_meta(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether all tensors are on the meta device, of which there is one, or a tensor is to be made there."""
    tensors = [x for x in _flat((args, list(kwargs.values()))) if isinstance(x, Tensor)]
    if not tensors:
        return bool(kwargs.get("device") == torch.device("meta"))
    return all(x.is_meta and type(x) in (Tensor, torch.nn.Parameter) for x in tensors)


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    """What stands in lists and tuples, at any depth."""
    for x in values:
        if isinstance(x, list | tuple):
            yield from _flat(x)
        else:
            yield x
