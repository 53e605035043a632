"""Value embeddings: a table of tokens whose rows are added to the values of a layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.describe import Count, Positive, Value
from anyformer.operations import Dimension, Tally, Weight, total
from anyformer.parts.call.context import Context
from anyformer.parts.lookup import rows_of
from anyformer.parts.pointwise.gate import Gate


class ValueEmbedding(Value):
    """v'_t = v_t + scale * g(x_t) * table[token_t], table (V, K * U): a row has a part for each head of values, (B, T, K, U).

    Large tables cost memory and no products. modded-nanogpt (Jordan et al. 2024) has them without a gate in some layers,
    nanochat (Karpathy 2025) in every other one with a gate per head and scale 2, so that a gate of one half changes nothing.
    """

    vocab: Count
    """V."""
    gate: Gate | None = None
    """g, from what the values read; None: 1."""
    scale: Positive = 1.0

    def build(self, inputs: int, groups: int, value_width: int) -> ValueEmbeddingModule:
        return ValueEmbeddingModule(self, inputs, groups, value_width)

    def cost(self, inputs: int, groups: int, value_width: int, rows: int) -> Tally:
        tokens: Dimension = (("vocab", self.vocab),)
        values: Dimension = (("kv_heads", groups), ("features", value_width))
        table = Weight((self.vocab, groups * value_width), "row", "embedding", linear=False, axes=(tokens, values))
        gate = {} if self.gate is None else {"gate": self.gate.cost(inputs, groups, value_width, rows, of="kv_heads")}
        return Tally({"table": table}) + total(gate)


class ValueEmbeddingModule(nn.Module):
    """Values (B, T, K, U), what they read (B, T, D) and the context's tokens (B, T) -> (B, T, K, U)."""

    def __init__(self, part: ValueEmbedding, inputs: int, groups: int, value_width: int) -> None:
        super().__init__()
        self.scale = part.scale
        self.table = nn.Parameter(torch.empty(part.vocab, groups * value_width))
        self.gate = part.gate.build(inputs, groups, value_width) if part.gate else None

    def forward(self, v_BTKU: Tensor, x_BTD: Tensor, context: Context) -> Tensor:
        assert context.tokens is not None, "a stack whose layers read tokens gets them"
        rows = rows_of(self.table, context.tokens, "tokens of a value embedding")
        rows_BTKU = rows.to(v_BTKU.dtype).view(v_BTKU.shape) * self.scale
        return v_BTKU + (rows_BTKU if self.gate is None else self.gate(x_BTD, rows_BTKU))
