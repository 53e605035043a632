"""MultiScale: feature maps of several sizes read each other through one stack and keep their shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from anyformer.describe import Count, Value
from anyformer.model.initialise import Described, assemble
from anyformer.operations import Shape, Tally, Weight, matrix, total
from anyformer.parts.call.context import Context
from anyformer.parts.call.noise import DrawsNoise, Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.parts.call.shared import SOURCE
from anyformer.parts.initialisation import Initialisation
from anyformer.parts.layers.stack import Stack
from anyformer.parts.lookup import InputError
from anyformer.parts.norms.batch_norm import BatchNorm
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.depthwise import Depthwise, depthwise
from anyformer.plan import Plan


class MultiScale(Value):
    """The skip connections of a U-Net, transformed together: n maps X_i (B, D_i, h_i, w_i) to n maps of the same shapes.

        T_i = depthwise(pool(X_i)): (B, g * g, D_i);   T = T_1 | ... | T_n: (B, g * g, D), D = sum of D_i
        T'  = encoder(T);   Y_i = relu(norm(X_i + upsample(T'_i W_i + b_i)))

    Pooling is the mean over a grid of g x g, upsampling is bilinear with aligned corners. With blocks of
    `ChannelCrossAttention` and `SpatialCrossAttention` it is DCA (Ates et al. 2023, arXiv 2303.17696), between any U-Net's
    encoder and its decoder; the paper's C_i is D_i, and its 1 x 1 convolution is W_i, b_i.

        scales = (32, 64, 128, 256)
        block = residual(ChannelCrossAttention(scales=scales), SpatialCrossAttention(scales=scales))
        skips = MultiScale(channels=scales, grid=28, encoder=stack([block])).build()
        maps = unet.encoder(images)    # four maps, (B, 32, h, w) to (B, 256, h / 8, w / 8)
        maps = skips(maps)
        masks = unet.decoder(maps)
    """

    channels: tuple[Count, ...] = Field(min_length=1)
    """D_i, features of each map."""
    grid: Count
    """g: every map becomes g * g positions."""
    encoder: Stack
    """The layers that the positions pass, of width D."""
    norm: Norm = BatchNorm()
    """Norm over the features of each map, after the sum."""
    initialisation: Initialisation = Initialisation()

    @model_validator(mode="after")
    def _fits_together(self) -> MultiScale:
        if SOURCE in self.encoder.reads:
            raise ValueError("encoder: cross-attention has no other sequence to read here")
        if self.encoder.reads_tokens:
            raise ValueError("encoder: a layer reads the tokens themselves, and feature maps have none")
        longest = self.encoder.max_length
        if longest is not None and longest < self.positions:
            raise ValueError(f"encoder: its position table ends at {longest}, and a grid of {self.grid} has {self.positions}")
        self.encoder.check(self.width, self.width, "encoder")
        return self

    @property
    def width(self) -> int:
        """D."""
        return sum(self.channels)

    @property
    def positions(self) -> int:
        """g * g."""
        return self.grid**2

    def cost(self, batch: int = 1, plan: Plan | None = None) -> Tally:
        """The declarations of all parts for one call; matrix products read the grid only, for maps of any size."""
        encoder = self.encoder.cost(self.width, self.width, Shape(batch=batch, length=self.positions), plan or Plan())
        parts = {"encoder": encoder.without("state", "limits")}
        for i, own in enumerate(self.channels):
            output = matrix("output", own, own, batch * self.positions, role="replicate", bias=True)
            parts[f"scales.{i}"] = (
                depthwise("embed", own) + output + total({"norm": self.norm.cost(own, batch * self.positions)})
            )
        return total(parts)

    def build(
        self,
        plan: Plan | None = None,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        seed: int = 0,
    ) -> MultiScaleModule:
        """The module, initialised by its own rules from `seed`; on `device="meta"` without values."""
        return assemble(lambda: MultiScaleModule(self, plan or Plan()), device, dtype, seed)


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
        """The maps after they have read each other; `noise`: for dropout; `auxiliary`: collects expert layers' reports."""
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
            raise InputError(f"maps should be {len(channels)}, one for each of channels = {list(channels)}, got {len(maps)}")
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
