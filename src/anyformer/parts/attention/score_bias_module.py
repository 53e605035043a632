"""The modules of ALiBi and of buckets of distances."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from anyformer.parts.attention.score_bias import ALiBi, RelativeBuckets
from anyformer.parts.call.context import Context, Memory
from anyformer.parts.call.state import Keys
from anyformer.parts.constant import listed
from anyformer.parts.slot import HeadSizes


class ALiBiModule(nn.Module):
    """A module without weights: slopes are computed, so that there is no buffer to lose."""

    def __init__(self, alibi: ALiBi, sizes: HeadSizes) -> None:
        super().__init__()
        self.factor = sizes.scale if alibi.before_scale else 1.0
        self.slopes, self.rounds = tuple(alibi.of_heads(sizes.heads)), alibi.rounded_to is not None

    def forward(self, q_BHTE: Tensor, memory: Memory, context: Context, own: nn.Module | None, x_BTD: Tensor) -> Tensor:
        """(B or 1, H, T, S) in fp32."""
        kind = ("alibi", self.slopes, self.factor, self.rounds, memory.keys.label)
        return context.once(kind, lambda: self._bias(context, memory.keys))

    def _bias(self, context: Context, keys: Keys) -> Tensor:
        query_BT, key_BS = context.positions, keys.positions
        slopes_H11 = listed(self.slopes, torch.float32, query_BT.device)[:, None, None]
        if self.rounds:
            query, key = (slopes_H11.bfloat16() * x[:, None, None, :] for x in (query_BT, key_BS))
            return -self.factor * (query.mT.float() - key.float()).abs()
        distance = (query_BT[:, None, :, None] - key_BS[:, None, None, :]).abs()
        return -slopes_H11 * self.factor * distance


class RelativeBucketsModule(nn.Module):
    def __init__(self, buckets: RelativeBuckets, heads: int) -> None:
        super().__init__()
        self.buckets = buckets
        self.weight = nn.Parameter(torch.empty(buckets.buckets, heads))

    def forward(self, q_BHTE: Tensor, memory: Memory, context: Context, own: nn.Module | None, x_BTD: Tensor) -> Tensor:
        """(B or 1, H, T, S)."""
        relative = memory.keys.positions[:, None, :] - context.positions[:, :, None]
        return nn.functional.embedding(bucket(self.buckets, relative), self.weight).permute(0, 3, 1, 2)


def bucket(buckets: RelativeBuckets, relative: Tensor) -> Tensor:
    """The bucket of s - t, with a logarithm in fp32 as in T5: in another type powers of two are off by one."""
    count, first = buckets.buckets, torch.zeros_like(relative)
    if buckets.two_sided:
        count //= 2
        first = torch.where(relative > 0, count, 0)
        distance = relative.abs()
    else:
        distance = (-relative).clamp(min=0)
    exact = count // 2
    growth = torch.log(distance.clamp(min=1).float() / exact) / math.log(buckets.max_distance / exact) * (count - exact)
    far = (exact + growth.long()).clamp(max=count - 1)
    return first + torch.where(distance < exact, distance, far)
