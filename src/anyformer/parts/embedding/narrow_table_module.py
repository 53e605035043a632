"""The module of narrow tables."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.embedding.narrow_table import NarrowTable


class NarrowTableModule(nn.Module):
    """(B, T, P) and padding (B, T) -> (B, T, D)."""

    def __init__(self, part: NarrowTable, width: int) -> None:
        super().__init__()
        self.around = part.around
        self.projection = nn.Linear(part.inputs, width)

    def forward(self, x_BTP: Tensor, padding_BT: Tensor | None) -> Tensor:
        length, a = x_BTP.shape[1], self.around
        if padding_BT is not None and a:
            x_BTP = x_BTP.masked_fill(padding_BT[..., None], 0)
        wide = F.pad(x_BTP, (0, 0, a, a))
        return self.projection(torch.cat([wide[:, i : i + length] for i in reversed(range(2 * a + 1))], -1))  # type: ignore[no-any-return]
