"""Head: from the last hidden state to a logit per token of the vocabulary."""

from __future__ import annotations

from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from anyformer.describe import Value
from anyformer.tally import Flops, Tally, Weight


class Head(Value):
    """logits = cap(scale * (x W^T + b)), W (V, D): the embedding's table if `tied`; cap(z) = softcap * tanh(z / softcap)."""

    tied: bool = False
    """Use the embedding's table; nothing is stored twice."""
    bias: bool = False
    scale: Annotated[float, Field(gt=0)] = 1.0
    softcap: Annotated[float, Field(gt=0)] | None = None

    def build(self, vocab: int, width: int) -> HeadModule:
        return HeadModule(self, vocab, width)

    def cost(self, vocab: int, width: int, rows: int) -> Tally:
        weights: dict[str, Weight] = {}
        if not self.tied:
            weights["weight"] = Weight((vocab, width), "column", "head")
        if self.bias:
            weights["bias"] = Weight((vocab,), "column", "zeros")
        work = 2 * rows * width * vocab
        return Tally(weights, {"logits": Flops(work, work)})


class HeadModule(nn.Module):
    """(..., D) -> (..., V). A tied table is handed in at each call, so that no copy, cast or move can break the tie."""

    def __init__(self, head: Head, vocab: int, width: int) -> None:
        super().__init__()
        self.head = head
        self.weight = None if head.tied else nn.Parameter(torch.empty(vocab, width))
        self.bias = nn.Parameter(torch.empty(vocab)) if head.bias else None

    def extra_repr(self) -> str:
        return repr(self.head)

    def forward(self, x_D: Tensor, table_VD: Tensor) -> Tensor:
        logits_V = F.linear(x_D, table_VD if self.weight is None else self.weight, self.bias)
        if self.head.scale != 1.0:
            logits_V = logits_V * self.head.scale
        if self.head.softcap is not None:
            logits_V = self.head.softcap * torch.tanh(logits_V / self.head.softcap)
        return logits_V
