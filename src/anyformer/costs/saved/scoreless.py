"""Attention by a kernel that writes no scores, masks or biases of them, in place of whatever torch would do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from anyformer.parts.attention.attend_blocks import BLOCKS


class Scoreless(TorchFunctionMode):
    """Inside, torch's attention and ours by blocks save q, k, v, their output and log Z in fp32.

    `attended` is called with q, k and v, with these two outputs, and with masks and biases, which the kernel does not read.
    Dao et al. 2022 (arXiv 2205.14135), algorithm 1.
    """

    def __init__(self, attended: Callable[..., None]) -> None:
        super().__init__()
        self._attended = attended

    def __torch_function__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if function not in (F.scaled_dot_product_attention, BLOCKS):
            return function(*args, **(kwargs or {}))
        qkv = args[:3]
        if function is not BLOCKS and torch.is_autocast_enabled("cpu"):
            qkv = tuple(x.to(torch.get_autocast_dtype("cpu")) for x in qkv)
        mixed, log_z = _Kernel.apply(*qkv)  # type: ignore[no-untyped-call]
        unread = [x for x in (*args[3:], *(kwargs or {}).values()) if isinstance(x, Tensor)]
        self._attended(qkv, (mixed, log_z), unread)
        return mixed


class _Kernel(torch.autograd.Function):
    """(B, H, T, E), (B, K, S, E), (B, K, S, U) -> (B, H, T, U), laid out in memory as the queries are."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        (B, H, T, _), U = q.shape, v.shape[-1]
        heads_first = q.stride(1) > q.stride(2)
        mixed = q.new_empty(B, H, T, U) if heads_first else q.new_empty(B, T, H, U).transpose(1, 2)
        log_z = q.new_empty(B, H, T, dtype=torch.float32)
        ctx.mark_non_differentiable(log_z)
        ctx.save_for_backward(q, k, v, mixed, log_z)
        return mixed, log_z

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise NotImplementedError("tensors on paper have no gradients")
