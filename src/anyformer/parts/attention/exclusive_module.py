"""The module of exclusive self-attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.attention.exclusive import Exclusive


class ExclusiveModule(nn.Module):
    """(B, H, T, U) and the tokens' own values (B, T, K, U) -> (B, H, T, U)."""

    def __init__(self, part: Exclusive, heads: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads)) if part.strength == "learned" else None

    def forward(self, y_BHTU: Tensor, v_BTKU: Tensor) -> Tensor:
        v_BKTU = F.normalize(v_BTKU.float(), dim=-1).to(y_BHTU.dtype).transpose(1, 2)
        v_BHTU = v_BKTU.repeat_interleave(y_BHTU.shape[1] // v_BKTU.shape[1], 1)
        along = (y_BHTU * v_BHTU).sum(-1, keepdim=True)
        if self.weight is not None:
            along = along * torch.tanh(self.weight).to(along.dtype)[:, None, None]
        return y_BHTU - along * v_BHTU
