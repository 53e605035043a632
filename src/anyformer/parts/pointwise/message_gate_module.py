"""The module of gates of messages."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.pointwise.message_gate import MessageGate


class MessageGateModule(nn.Module):
    """(B, T, D) twice -> (B, T, D)."""

    def __init__(self, gate: MessageGate, width: int) -> None:
        super().__init__()
        self.eps = gate.eps
        self.down = nn.Linear(2 * width, gate.rank, bias=False)
        self.forget = nn.Linear(gate.rank, width, bias=False)
        self.message = nn.Linear(gate.rank, width, bias=False)

    def forward(self, x_BTD: Tensor, message_BTD: Tensor) -> Tensor:
        both = torch.cat([self._normed(x_BTD), self._normed(message_BTD)], -1)
        z_BTP = self.down(both.to(x_BTD.dtype))
        return (1 - self.forget(z_BTP).tanh()) * x_BTD + self.message(z_BTP).tanh() * message_BTD  # type: ignore[no-any-return]

    def _normed(self, x_BTD: Tensor) -> Tensor:
        x_BTD = x_BTD.float() if x_BTD.dtype.itemsize < 4 else x_BTD
        return x_BTD * torch.rsqrt(x_BTD.square().mean(-1, keepdim=True) + self.eps)
