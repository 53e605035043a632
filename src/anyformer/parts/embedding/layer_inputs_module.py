"""The modules of inputs of each layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.derived import of_width
from anyformer.parts.embedding.layer_embedding_module import GatedRowsModule
from anyformer.parts.embedding.layer_inputs import LAYER_INPUTS, LayerInput, LayerInputs
from anyformer.parts.lookup import rows_of


class LayerInputsModule(nn.Module):
    """(B, T, D) and tokens (B, T) -> (B, T, L, P)."""

    def __init__(self, part: LayerInputs, width: int, depth: int) -> None:
        super().__init__()
        self.part, self.shape = part, (depth, part.width)
        self.scale = of_width(part.projection_scale, width)
        self.projection = nn.Linear(width, depth * part.width, bias=False)
        self.norm = part.norm.build(part.width) if part.norm else nn.Identity()
        self.table = None if part.vocab is None else nn.Parameter(torch.empty(part.vocab, depth * part.width))

    def forward(self, x_BTD: Tensor, tokens_BT: Tensor | None) -> Tensor:
        shape = (*x_BTD.shape[:2], *self.shape)
        inputs_BTLP: Tensor = self.norm((self.projection(x_BTD) * self.scale).view(shape))
        if self.table is not None:
            assert tokens_BT is not None, "a stack that reads tokens gets them"
            if self.part.beyond is not None:
                tokens_BT = tokens_BT.where(tokens_BT < len(self.table), self.part.beyond)
            rows = rows_of(self.table, tokens_BT, "tokens of the inputs of each layer").view(shape)
            inputs_BTLP = inputs_BTLP + rows.to(inputs_BTLP.dtype) * self.part.table_scale
        return inputs_BTLP * self.part.factor


class LayerInputModule(GatedRowsModule):
    """(B, T, D) and the stack's (B, T, L, P) -> (B, T, D)."""

    def __init__(self, part: LayerInput, width: int) -> None:
        super().__init__(width, part.width, part.activation)
        assert part.layer is not None, "a stack gives every layer its number"
        self.layer = part.layer

    def forward(self, x_BTD: Tensor, context: Context, state: None = None) -> Tensor:
        inputs_BTLP: Tensor = context.shared[None, LAYER_INPUTS]
        return self.gated(x_BTD, inputs_BTLP[:, :, self.layer], context)
