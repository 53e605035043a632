"""The module of the forgetting gate of attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.call.annotated_state import AnnotatedState
from anyformer.parts.call.context import Context


class ForgettingGateModule(nn.Module):
    """(B, T, D) -> the bias of the scores (B, H, T, S) in fp32."""

    def __init__(self, inputs: int, heads: int) -> None:
        super().__init__()
        self.gates = nn.Linear(inputs, heads)

    def forward(self, x_BTD: Tensor, context: Context, state: AnnotatedState | None) -> Tensor:
        log_BTH = F.logsigmoid(self.gates(x_BTD).float())
        if context.valid is not None:
            log_BTH = torch.where(context.valid[..., None], log_BTH, 0.0)  # padding stands between no two tokens
        query_BHT1 = log_BTH.cumsum(1).transpose(1, 2)[..., None]
        key_BHS1 = query_BHT1
        if state is not None:
            assert context.chunk is not None, "a stack with state enters its chunk first"
            # Differences alone are read, so it does not matter what the sum of a row begins with.
            query_BHT1 = query_BHT1 + state.before(context.chunk)
            key_BHS1 = state.extend_beside(query_BHT1, context.chunk)
        return -(query_BHT1 - key_BHS1.mT).abs()
