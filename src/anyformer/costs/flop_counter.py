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
from torch.utils.flop_counter import flop_registry

from anyformer.costs.saved.layouts import laid_out


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
        formula = flop_registry.get(operator._overloadpacket)
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
