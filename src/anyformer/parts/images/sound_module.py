"""The module of towers of sound."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.state import EMPTY
from anyformer.parts.images.sound import SoundTower
from anyformer.plan import Plan


class SoundTowerModule(nn.Module):
    """Frames (n, F, I), and their padding (n, F) if any -> what the projector makes of all positions, (n, T, D), padding
    too, whose tokens come last and stand in no text."""

    def __init__(self, tower: SoundTower, width: int, plan: Plan, name: str) -> None:
        super().__init__()
        self.tower, self.plan = tower, plan
        self.embedding = tower.embedding.build(tower.width)
        self.stack = tower.stack.build(tower.width, tower.width, plan, f"{name}.stack")
        self.projector = tower.projector.build(tower.width, width)

    def forward(self, audio: Tensor, padding: Tensor | None = None) -> Tensor:
        # The convolutions read what stands in the padding: the silence that fills a window.
        x_nSD = self.embedding(audio, None, None)
        positions = torch.arange(x_nSD.shape[1], device=x_nSD.device)[None]
        if padding is None:
            context = Context(positions, self.plan, padded=False)
        else:
            beyond_nS = self.tower.embedding.padding(padding)
            assert beyond_nS is not None, "made of padding"
            context = Context(torch.where(beyond_nS, EMPTY, positions), self.plan, aligned=False)
        y_nTD: Tensor = self.projector(self.stack(x_nSD, context))
        return y_nTD

    def plain(self, tokens_BT: Tensor) -> Tensor:
        """The tokens with one that has a row in the table in the place of those of sounds."""
        return tokens_BT.masked_fill(tokens_BT == self.tower.token, 0)

    def among(self, x_BTD: Tensor, tokens_BT: Tensor, audio: Tensor, padding: Tensor | None) -> Tensor:
        """The embeddings (B, T, D) of the tokens, with those of the sounds at theirs."""
        inside_BT, y_nTD = tokens_BT == self.tower.token, self(audio, padding).to(x_BTD.dtype)
        if padding is None:
            return x_BTD.masked_scatter(inside_BT[:, :, None], y_nTD)
        # By their numbers, since a compiled graph has no tensor of as many rows as all sounds have tokens.
        sizes_n = torch.tensor(self.tower.sizes_up_to(audio.shape[1]), device=padding.device)[(~padding).sum(1)]
        ends_n, number_BT = sizes_n.cumsum(0), (inside_BT.flatten().cumsum(0) - 1).clamp(min=0).view(inside_BT.shape)
        sound_BT = (number_BT[:, :, None] >= ends_n).sum(2).clamp(max=len(ends_n) - 1)
        place_BT = (number_BT - (ends_n - sizes_n)[sound_BT]).clamp(max=y_nTD.shape[1] - 1)
        return torch.where(inside_BT[:, :, None], y_nTD[sound_BT, place_BT], x_BTD)
