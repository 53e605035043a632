"""A compiled decode step, for jobs long enough to recover the time of compilation."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from anyformer.generation.decode import Step, decode
from anyformer.model import Transformer
from anyformer.parts.call.stack_state import StackState

LONG_JOB = 4096
"""New tokens from which compilation pays: it takes tens of seconds and saves a few milliseconds per token."""
MULTIPLE = 128
"""Slots by which the visible part of the state grows: at most one compilation for so many tokens."""
FEW_ROWS = 2
"""Rows up to which a matrix product is bound by reading the matrix, so that a plain reduction beats a GEMM kernel."""


class ReductionForFewRows(TorchFunctionMode):
    """Inside, x W^T of a few rows on a CPU is written as sum(x * W): compiled, it streams W at the memory's speed.

    The sum runs in fp32 at least, whatever the weights' type, so it is at least as exact as the kernel it replaces.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.linear and args[0].device.type == "cpu" and args[0].numel() <= FEW_ROWS * args[0].shape[-1]:
            return reduction(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def reduction(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """F.linear as one reduction: (..., I) and (O, I) -> (..., O)."""
    exact = torch.promote_types(x.dtype, torch.float32)
    y = (x.to(exact)[..., None, :] * weight.to(exact)).sum(-1)
    return (y if bias is None else y + bias.to(exact)).to(x.dtype)


def of(model: Transformer) -> CompiledDecode:
    """The compiled step of a model, which keeps what was compiled for it."""
    return _COMPILED.setdefault(model, CompiledDecode())


class CompiledDecode:
    """`decode` for one model, compiled once for each number of visible slots; a first call takes the time of a compilation.

    Dynamo's guards check at every call that nothing has changed since compilation, which takes a tenth of a small model's
    step. Here everything but the tensors is constant by construction: one model, and a compilation for each view. So only
    the guards on types and shapes of tensors stay.
    """

    def __init__(self) -> None:
        self._steps: dict[Hashable, Step] = {}

    def __call__(self, model: Transformer, tokens_B: Tensor, state: StackState) -> Tensor:
        view = (state.slots.visible, state.prefix is None, state.source_padding is None, model.training)
        if view not in self._steps:
            self._steps[view] = torch.compile(
                _with_own_code(_reducing_decode),
                dynamic=False,
                fullgraph=True,
                options={"guard_filter_fn": partial(torch.compiler.keep_tensor_guards_unsafe, keep_parameters=True)},
            )
        return self._steps[view](model, tokens_B, state)


_COMPILED: WeakKeyDictionary[Transformer, CompiledDecode] = WeakKeyDictionary()


def _reducing_decode(model: Transformer, tokens_B: Tensor, state: StackState) -> Tensor:
    with ReductionForFewRows():
        return decode(model, tokens_B, state)


def _with_own_code(function: Step) -> Step:
    """A copy of `function` that shares no compilation with it: dynamo files compilations under the code object."""
    assert isinstance(function, FunctionType)
    return FunctionType(function.__code__.replace(), function.__globals__, function.__name__)
