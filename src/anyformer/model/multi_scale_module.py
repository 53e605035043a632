"""The module of MultiScale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.describe import InputError
from anyformer.model.initialise import Described
from anyformer.model.multi_scale import MultiScale
from anyformer.operations import Weight
from anyformer.parts.call.context import Context
from anyformer.parts.call.noise import DrawsNoise, Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.parts.initialisation import Initialisation
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.depthwise_module import Depthwise
from anyformer.plan import Plan


class MultiScaleModule(Described):
    """n maps (B, D_i, h_i, w_i), of any sizes, to n maps of the same shapes. It has no buffers."""

    def __init__(self, description: MultiScale, plan: Plan) -> None:
        super().__init__()
        self.description, self.plan = description, plan
        self.scales = nn.ModuleList(ScaleModule(own, description.grid, description.norm) for own in description.channels)
        self.encoder = description.encoder.build(description.width, description.width, plan, "encoder")
        self._draws = any(isinstance(module, DrawsNoise) and module.draws for module in self.modules())

    @property
    def declared(self) -> Mapping[str, Weight]:
        return self.description.cost().weights

    @property
    def initialisation(self) -> Initialisation:
        return self.description.initialisation.of_depth(self.description.encoder.depth)

    def forward(
        self, maps: Sequence[Tensor], *, noise: Noise | None = None, auxiliary: Auxiliary | None = None
    ) -> list[Tensor]:
        """The maps after they have read one another; `noise`: for dropout; `auxiliary`: collects expert layers' reports."""
        self._check(maps)
        batch, device = len(maps[0]), maps[0].device
        if self.training and self._draws and noise is None:
            noise = Noise.fresh(batch, device)
        scales: list[ScaleModule] = list(self.scales)  # type: ignore[arg-type]
        x_BTD = torch.cat([scale.read(x) for scale, x in zip(scales, maps, strict=True)], -1)
        positions = torch.arange(self.description.positions, device=device)[None]
        x_BTD = self.encoder(x_BTD, Context(positions, self.plan, padded=False, noise=noise, auxiliary=auxiliary))
        pieces = x_BTD.split(self.description.channels, -1)
        return [scale.write(x, piece) for scale, x, piece in zip(scales, maps, pieces, strict=True)]

    def _check(self, maps: Sequence[Tensor]) -> None:
        """Refuse maps of the wrong number or shape, before any work."""
        channels = self.description.channels
        if len(maps) != len(channels):
            raise InputError(f"maps should be {len(channels)}, one per number of channels = {list(channels)}, got {len(maps)}")
        for i, (x, own) in enumerate(zip(maps, channels, strict=True)):
            if x.dim() != 4 or x.shape[1] != own:
                raise InputError(f"map {i} should have shape (B, {own}, h, w), got {tuple(x.shape)}")
            if len(x) != len(maps[0]):
                raise InputError(f"all maps should have the batch of map 0, {len(maps[0])} rows, got {len(x)} in map {i}")


class ScaleModule(nn.Module):
    """One scale: the map to tokens of the grid, and back."""

    def __init__(self, width: int, grid: int, norm: Norm) -> None:
        super().__init__()
        self.grid = grid
        self.embed = Depthwise(width)
        self.output = nn.Linear(width, width)
        self.norm = norm.build(width)

    def read(self, x: Tensor) -> Tensor:
        """(B, D_i, h, w) -> (B, g * g, D_i)."""
        tokens: Tensor = self.embed(F.adaptive_avg_pool2d(x, self.grid).flatten(2).mT)
        return tokens

    def write(self, x: Tensor, tokens: Tensor) -> Tensor:
        """The map (B, D_i, h, w) with its tokens (B, g * g, D_i) added, normalised, rectified."""
        # The paper's 1 x 1 convolution comes after upsampling. They commute, because the weights of an interpolation add up
        # to 1, and a map has many more positions than the grid.
        small = self.output(tokens).mT.unflatten(-1, (self.grid, self.grid))
        y = x + F.interpolate(small, x.shape[2:], mode="bilinear", align_corners=True)
        return self.norm(y.movedim(1, -1)).movedim(-1, 1).relu()  # type: ignore[no-any-return]
