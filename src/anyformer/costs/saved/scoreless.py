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
    """Inside, torch's attention and ours by blocks save q, k, v, what they give and log Z in fp32.

    `gave` is told of q, k and v, of these two, and of masks and biases, which nobody reads. Dao et al. 2022 (arXiv 2205.14135),
    algorithm 1.
    """

    def __init__(self, gave: Callable[..., None]) -> None:
        super().__init__()
        self._gave = gave

    def __torch_function__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if function not in (F.scaled_dot_product_attention, BLOCKS):
            return function(*args, **(kwargs or {}))
        given = args[:3]
        if function is not BLOCKS and torch.is_autocast_enabled("cpu"):
            given = tuple(x.to(torch.get_autocast_dtype("cpu")) for x in given)
        mixed, log_z = _Kernel.apply(*given)  # type: ignore[no-untyped-call]
        unread = [x for x in (*args[3:], *(kwargs or {}).values()) if isinstance(x, Tensor)]
        self._gave(given, (mixed, log_z), unread)
        return mixed


class _Kernel(torch.autograd.Function):
    """(B, H, T, E), (B, K, S, E), (B, K, S, U) -> (B, H, T, U), which stands in memory as the queries do."""

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
        raise NotImplementedError("what is computed on paper has no gradients")
