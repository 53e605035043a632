"""The modules of continuous inputs."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.derived import of_width
from anyformer.parts.embedding.embedding_module import InputModule
from anyformer.parts.embedding.features import AudioFrames, Features, GatedFrames


class FeaturesModule(InputModule):
    """(B, T, I) -> (B, T, D)."""

    def __init__(self, part: Features, width: int) -> None:
        super().__init__()
        self.projection = nn.Linear(part.features, width, bias=part.bias)
        self.norm = part.norm.build(width) if part.norm else nn.Identity()

    def forward(self, given: Tensor, padding: Tensor | None, types: Tensor | None) -> Tensor:
        return self.norm(self.projection(given.to(self.projection.weight.dtype)))  # type: ignore[no-any-return]


class AudioFramesModule(InputModule):
    """(B, frames, I) -> (B, ceil(frames / 2), D)."""

    def __init__(self, part: AudioFrames, width: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(part.features, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, stride=2, padding=1)

    def forward(self, given: Tensor, padding: Tensor | None, types: Tensor | None) -> Tensor:
        x_BDT = F.gelu(self.first(_silent(given.to(self.first.weight.dtype).mT, padding)))
        x_BDT = F.gelu(self.second(_silent(x_BDT, padding)))
        # Contiguous, or every projection that reads the stream would make a copy and save it for backward.
        return x_BDT.mT.contiguous()


class GatedFramesModule(InputModule):
    """(B, frames, I) -> (B, ceil(frames / 2^n), D)."""

    def __init__(self, part: GatedFrames, width: int) -> None:
        super().__init__()
        self.scale = of_width(part.scale, width)
        self.layers = nn.ModuleList(
            nn.Conv1d(inputs, outputs, kernel, stride=2, padding=kernel // 2)
            for kernel, (outputs, inputs) in zip(part.kernels, part.sides(width), strict=True)
        )

    def forward(self, given: Tensor, padding: Tensor | None, types: Tensor | None) -> Tensor:
        x_BIT = given.to(next(self.parameters()).dtype).mT
        for layer in self.layers:
            x_BIT = F.glu(layer(_silent(x_BIT, padding)), dim=1)
            padding = None if padding is None else padding[:, ::2]
        x_BTI = x_BIT.mT.contiguous()
        return x_BTI if self.scale == 1.0 else x_BTI * self.scale


def _silent(x_BIT: Tensor, padding_BT: Tensor | None) -> Tensor:
    """x with padding set to zero, which is also what a convolution reads beyond the end of a row."""
    return x_BIT if padding_BT is None else x_BIT.masked_fill(padding_BT[:, None], 0)
