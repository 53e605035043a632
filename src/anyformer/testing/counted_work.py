"""The operations of a formula on single numbers, counted as `operations/elementwise.py` counts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from anyformer.operations import Elementwise, Tally
from anyformer.operations.elementwise import ACTIVATED

SINGLE = {
    "add", "sub", "rsub", "mul", "div", "sqrt", "rsqrt", "exp", "log", "relu", "abs", "neg", "clamp", "clamp_min", "square",
    "maximum", "minimum", "truediv", "rtruediv", "radd", "rmul", "rdiv", "reciprocal",
}  # fmt: skip
"""Functions with one operation on every number."""
SUMMED = {"sum", "mean", "amax", "max", "prod"}
"""Functions with one operation on every number that they read."""
NAMED = {"sigmoid", "tanh", "silu", "gelu", "softplus"}
"""Activations."""
SOFTMAX = 3
"""Operations of a softmax on a score."""


def elementwise(tally: Tally) -> int:
    """The element-wise operations that a part declares."""
    works = (each for node in tally.nodes() for each in node.tally.own_work.values())
    return sum(each.dense for each in works if isinstance(each, Elementwise))


def operations_of(formula: Callable[[Tensor], object], x: Tensor) -> int:
    """The sums, differences, products, quotients, roots and exponentials of `formula(x)`; an activation has four, a power p has
    p - 1. Operations on one number alone, such as a mean plus eps, count one."""
    counted = _Counted()
    with counted, torch.no_grad():
        formula(x)
    return counted.operations


class _Counted(TorchFunctionMode):
    operations: int = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.__name__.strip("_")
        if isinstance(out, Tensor):
            self.operations += self._of(name, args, out)
        return out

    def _of(self, name: str, args: Any, out: Tensor) -> int:
        if name == "pow":
            power = args[1]
            return out.numel() * (max(power - 1, 1) if isinstance(power, int) else 1)
        if name in SUMMED:
            return int(args[0].numel())
        if name == "softmax":
            return SOFTMAX * out.numel()
        return out.numel() * (ACTIVATED if name in NAMED else int(name in SINGLE))
