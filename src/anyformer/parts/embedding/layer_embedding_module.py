"""The modules of per-layer token embeddings."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.embedding.layer_embedding import LayerEmbedding
from anyformer.parts.pointwise.activation_module import built_activation


class GatedRowsModule(nn.Module):
    """(act(x W_in) * row) W_out."""

    def __init__(self, width: int, narrow: int, activation: str) -> None:
        super().__init__()
        self.input = nn.Linear(width, narrow, bias=False)
        self.activation = built_activation(activation, narrow)
        self.output = nn.Linear(narrow, width, bias=False)

    def gated(self, x_BTD: Tensor, rows_BTP: Tensor, context: Context) -> Tensor:
        rows_BTP, gate_BTP = context.see("rows", rows_BTP), context.see("gate", self.input(x_BTD))
        return self.output(context.see("hidden", self.activation(gate_BTP) * rows_BTP))  # type: ignore[no-any-return]


class LayerEmbeddingModule(GatedRowsModule):
    """(B, T, D) and the context's tokens (B, T) -> (B, T, D)."""

    def __init__(self, part: LayerEmbedding, width: int) -> None:
        super().__init__(width, part.width, part.activation)
        self.scale = part.scale
        self.table = nn.Embedding(part.vocab, part.width)

    def forward(self, x_BTD: Tensor, context: Context, state: None = None) -> Tensor:
        assert context.tokens is not None, "a stack whose layers read tokens gets them"
        return self.gated(x_BTD, self.table(context.tokens).to(x_BTD.dtype) * self.scale, context)
