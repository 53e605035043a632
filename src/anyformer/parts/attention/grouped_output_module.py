"""The module of an output projection through a narrow vector of each group of heads."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.attention.grouped_output import GroupedOutput
from anyformer.parts.pointwise.grouped_module import projection


class GroupedOutputModule(nn.Module):
    """(B, T, H * E) -> (B, T, D)."""

    def __init__(self, part: GroupedOutput, features: int, width: int) -> None:
        super().__init__()
        narrow = part.groups * part.rank
        self.down = projection(features, narrow, bias=False, groups=part.groups)
        self.up = nn.Linear(narrow, width, bias=False)

    def forward(self, mixed_BTO: Tensor) -> Tensor:
        return self.up(self.down(mixed_BTO))  # type: ignore[no-any-return]
