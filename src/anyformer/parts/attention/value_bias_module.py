"""The module of biases that values give."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.attention.value_bias import ValueBias
from anyformer.parts.call.annotated_state import AnnotatedState
from anyformer.parts.call.context import Context
from anyformer.parts.slot import HeadSizes


class ValueBiasModule(nn.Module):
    """Values (B, T, K, U) -> the bias of the scores (B, H, 1, S) in fp32."""

    def __init__(self, part: ValueBias, sizes: HeadSizes) -> None:
        super().__init__()
        self.values = nn.Linear(sizes.groups * sizes.value_width, sizes.groups, bias=part.bias)
        self.rate = nn.Parameter(torch.empty(sizes.groups))
        self.each = sizes.heads // sizes.groups

    def forward(self, v_BTKU: Tensor, context: Context, state: AnnotatedState | None) -> Tensor:
        size_BTK = F.softplus(self.values(v_BTKU.flatten(2)).float())
        key_BKS1 = (self.rate.float() * size_BTK).exp().transpose(1, 2)[..., None]
        if state is not None:
            assert context.chunk is not None, "a stack with state enters its chunk first"
            key_BKS1 = state.extend_beside(key_BKS1, context.chunk)
        return key_BKS1.mT.repeat_interleave(self.each, 1)
