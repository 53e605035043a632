"""Attention of whole rows on a processor by a kernel in C++ (`attend_native.cpp`): about half the time of torch's.

It saves q, k, v, the result and a logarithm per query for the backward pass, no scores, and adds up in fp32. Where the
processor multiplies pairs of numbers in bf16, weights and the gradients of scores are rounded to it for that, as by torch's
kernel. Of a causal row it computes the lower triangle alone, by blocks of queries. One row's numbers depend on no other row,
nor on the threads. Keys, values and scores of a head stay in the processor's cache. Dao 2023 (arXiv 2307.08691) is the method.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from anyformer.native import NativeError, library, threads

SOURCE = Path(__file__).with_suffix(".cpp")
TYPES = {torch.float32: "fp32", torch.bfloat16: "bf16"}
LEAST_PAIRS, MOST_KEYS, MOST_WIDTH = 2**20, 2048, 256
"""Pairs of queries and keys, over all heads and rows, from which its calls pay; sizes up to which it was faster."""


class _Sizes(ctypes.Structure):
    """As `Sizes` of the source."""

    _fields_ = tuple((name, ctypes.c_int64) for name in (
        "rows", "heads", "key_heads", "queries", "keys", "width", "value_width", "causal"
    ))  # fmt: skip


def suits_native(q_BHTE: Tensor, k_BKSE: Tensor, v_BKSU: Tensor, *, causal: bool) -> bool:
    """Whether the kernel computes such attention, and faster than torch's: in fp32 or bf16, of many pairs and not too long."""
    (B, H, T, E), S, U = q_BHTE.shape, k_BKSE.shape[2], v_BKSU.shape[3]
    return (
        q_BHTE.device.type in ("cpu", "meta")
        and q_BHTE.dtype in TYPES
        and q_BHTE.dtype == k_BKSE.dtype == v_BKSU.dtype
        and T > 1
        and B * H * T * S >= LEAST_PAIRS
        and max(T, S) <= MOST_KEYS
        and max(E, U) <= MOST_WIDTH
        and (T == S or not causal)
    )


def attend_native(q_BHTE: Tensor, k_BKSE: Tensor, v_BKSU: Tensor, *, causal: bool, scale: float) -> Tensor:
    """softmax(q k^T * scale) v, (B, H, T, U), of all keys, or `causal` of those up to the query."""
    mixed: Tensor
    mixed, _ = _attend(q_BHTE, k_BKSE, v_BKSU, causal, scale)
    return mixed


def _heads_side_by_side(x: Tensor, heads: int, features: int) -> Tensor:
    """An empty (B, heads, T, features), in memory (B, T, heads, features): what a projection reads and gives without a copy."""
    return x.new_empty(x.shape[0], x.shape[2], heads, features).transpose(1, 2)


def _results(q: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    return _heads_side_by_side(q, q.shape[1], v.shape[3]), q.new_empty(q.shape[:3], dtype=torch.float32)


def _gradients(*given: Tensor) -> tuple[Tensor, ...]:
    return tuple(_heads_side_by_side(x, x.shape[1], x.shape[3]) for x in given)


@cache
def _function(name: str) -> Any:
    """A function of the source, looked up once."""
    return library(SOURCE)[name]


def _run(name: str, q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float, tensors: list[Tensor]) -> None:
    """Call a function of the source, which writes to the last of these tensors."""
    sizes = _Sizes(len(q), q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3], causal)
    data = (ctypes.c_void_p * len(tensors))(*(x.data_ptr() for x in tensors))
    strides = [stride for x in tensors for stride in x.stride()[:3]]
    failed = _function(f"{name}_{TYPES[q.dtype]}")(
        threads(), sizes, ctypes.c_float(scale), data, (ctypes.c_int64 * len(strides))(*strides)
    )
    if failed:
        raise NativeError(f"the kernel of {SOURCE.name} failed: the memory for its scores was not to be had")


def _read(x: Tensor) -> Tensor:
    """The tensor with its features side by side in memory."""
    return x if x.stride(-1) == 1 else x.contiguous()


@torch.library.custom_op("anyformer::attend_native", mutates_args=(), device_types="cpu")
def _attend(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """The mixed values, and the logarithm of every query's sum of exponentials, (B, H, T) in fp32."""
    q, k, v = (_read(x) for x in (q, k, v))
    mixed, logarithms = _results(q, v)
    _run("forward", q, k, v, causal, scale, [q, k, v, mixed, logarithms])
    return mixed, logarithms


@torch.library.custom_op("anyformer::attend_native_backward", mutates_args=(), device_types="cpu")
def _attend_backward(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, mixed: Tensor, logarithms: Tensor, causal: bool, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v."""
    gradient, q, k, v = (_read(x) for x in (gradient, q, k, v))
    found = _gradients(q, k, v)
    _run("backward", q, k, v, causal, scale, [gradient, q, k, v, mixed, logarithms, *found])
    of_q, of_k, of_v = found
    return of_q, of_k, of_v


@_attend.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    return _results(q, v)


@_attend_backward.register_fake
def _(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, mixed: Tensor, logarithms: Tensor, causal: bool, scale: float
) -> tuple[Tensor, ...]:
    return _gradients(q, k, v)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, ctx.causal, ctx.scale = inputs
    ctx.save_for_backward(q, k, v, *output)
    ctx.mark_non_differentiable(output[1])


def _back(context: Any, gradient: Tensor, of_logarithms: Tensor | None) -> tuple[Tensor | None, ...]:
    return (*_attend_backward(gradient, *context.saved_tensors, context.causal, context.scale), None, None)


_attend.register_autograd(_back, setup_context=_keep)
NATIVE = torch.ops.anyformer.attend_native.default


@register_flop_formula(torch.ops.anyformer.attend_native)
def _flops(q: Sequence[int], k: Sequence[int], v: Sequence[int], *rest: Any, **more: Any) -> int:
    """Products of all pairs of a query and a key, as torch counts its own kernels; of shapes."""
    return 2 * math.prod(q[:3]) * k[2] * (q[3] + v[3])


@register_flop_formula(torch.ops.anyformer.attend_native_backward)
def _backward_flops(
    gradient: Sequence[int], q: Sequence[int], k: Sequence[int], v: Sequence[int], *rest: Any, **more: Any
) -> int:
    """Scores again, and the gradients of weights, values, queries and keys."""
    return 2 * math.prod(q[:3]) * k[2] * (3 * q[3] + 2 * v[3])
