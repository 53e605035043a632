"""The module of waves that are encoded at a width of their own."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.noise import TakesNoise
from anyformer.parts.call.state import EMPTY
from anyformer.parts.embedding.embedding_module import InputModule
from anyformer.parts.images.encoded_waves import EncodedWaves
from anyformer.plan import Plan


class EncodedWavesModule(InputModule, TakesNoise):
    """(B, samples) -> (B, T, features that it gives)."""

    def __init__(self, part: EncodedWaves, width: int, plan: Plan, name: str) -> None:
        super().__init__()
        self.part, self.plan = part, plan.but(checkpointing="none")
        self.waves = part.waves.build(part.features)
        self.stack = part.stack.build(part.width, part.features, self.plan, f"{name}.stack")
        self.projection = nn.Linear(part.width, width) if part.projected else nn.Identity()

    def forward(self, given: Tensor, padding: Tensor | None, types: Tensor | None) -> Tensor:
        heard = self.waves(given, padding, types)
        positions = torch.arange(heard.shape[1], device=heard.device)[None]
        if padding is None:
            context = Context(positions, self.plan, padded=False, noise=self.noise)
        else:
            beyond_BT = self.part.waves.padding(padding)
            assert beyond_BT is not None, "made of padding"
            places_BT = torch.where(beyond_BT, EMPTY, positions)
            context = Context(places_BT, self.plan, aligned=False, noise=self.noise)
        return self.projection(self.stack(heard, context))  # type: ignore[no-any-return]
