"""The module of Engram."""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.recurrence.engram import Engram, JoinedState

SMALLEST = 1e-6
"""Scores count as this at least before their root, whose slope at 0 has no bound."""


class EngramModule(nn.Module):
    """(B, T, D) and the context's tokens (B, T) -> (B, T, D)."""

    def __init__(self, part: Engram, width: int) -> None:
        super().__init__()
        inputs, convolves = part.ngrams.tables * part.width, part.convolution is not None
        self.root = sqrt(width)
        self.ngrams = part.ngrams.build(part.width)
        self.key = nn.Linear(inputs, width, bias=False)
        self.value = nn.Linear(inputs, width, bias=False)
        self.query_norm, self.key_norm = part.norm.build(width), part.norm.build(width)
        self.convolution_norm = part.norm.build(width) if convolves else nn.Identity()
        self.convolution = part.convolution.build(width) if part.convolution else None

    def forward(self, x_BTD: Tensor, context: Context, state: JoinedState | None = None) -> Tensor:
        rows_BTI = self.ngrams(context, None if state is None else state["tokens"]).flatten(2).to(x_BTD.dtype)
        rows_BTI = context.see("rows", rows_BTI)
        gate_BT1 = context.see("gate", self.gate(x_BTD, self.key(rows_BTI)))
        v_BTD = gate_BT1 * context.see("value", self.value(rows_BTI))
        if self.convolution is None:
            return v_BTD
        past = None if state is None else state["convolution"]
        return v_BTD + self.convolution(self.convolution_norm(v_BTD), context, past)  # type: ignore[no-any-return]

    def gate(self, x_BTD: Tensor, key_BTD: Tensor) -> Tensor:
        """(B, T, 1)."""
        scores = (self.key_norm(key_BTD) * self.query_norm(x_BTD)).sum(-1, keepdim=True) / self.root
        return torch.sigmoid(scores.abs().clamp(min=SMALLEST).sqrt() * scores.sign())
