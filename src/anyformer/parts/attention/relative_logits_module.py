"""The module of relative logits."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.attention.relative_logits import RelativeLogits
from anyformer.parts.call.context import Context, Memory
from anyformer.parts.slot import HeadSizes


class RelativeLogitsModule(nn.Module):
    def __init__(self, part: RelativeLogits, sizes: HeadSizes) -> None:
        super().__init__()
        self.extent = part.extent
        self.states = nn.Linear(sizes.inputs, sizes.heads * part.features, bias=False)
        self.profiles = nn.Linear(part.features, part.extent, bias=False)

    def forward(self, q_BHTE: Tensor, memory: Memory, context: Context, own: nn.Module | None, x_BTD: Tensor) -> Tensor:
        """(B, H, T, S)."""
        B, H, T, _ = q_BHTE.shape
        logits_BHTn = self.profiles(self.mixed(x_BTD, H, context)).transpose(1, 2)
        distance_B1TS = (context.positions[:, :, None] - memory.keys.positions[:, None, :])[:, None]
        near = (distance_B1TS >= 0) & (distance_B1TS < self.extent)
        index = distance_B1TS.clamp(0, self.extent - 1).expand(B, H, T, -1)
        logits: Tensor = logits_BHTn.gather(-1, index).masked_fill(~near, 0.0)
        return logits.float()

    def mixed(self, x_BTD: Tensor, heads: int, context: Context) -> Tensor:
        """What a token mixes of the profiles, r: (B, T, H, P)."""
        return self.states(x_BTD).view(*x_BTD.shape[:2], heads, -1)  # type: ignore[no-any-return]
