"""MultiScale: feature maps of several sizes read one another through one stack and keep their shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from anyformer.describe import Count, Value
from anyformer.operations import Shape, Tally, matrix, total
from anyformer.parts.call.shared import SOURCE
from anyformer.parts.initialisation import Initialisation
from anyformer.parts.layers.stack import Stack
from anyformer.parts.norms.batch_norm import BatchNorm
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.depthwise import depthwise
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.model.multi_scale_module import MultiScaleModule


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
        dtype: torch.dtype | None = None,
        seed: int = 0,
    ) -> MultiScaleModule:
        """The module, initialised by its own rules from `seed`, in fp32 by default; on `device="meta"` without values."""
        import torch

        from anyformer.model.initialise import assemble
        from anyformer.model.multi_scale_module import MultiScaleModule

        return assemble(lambda: MultiScaleModule(self, plan or Plan()), device, dtype or torch.float32, seed)
