"""The module of waves."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.embedding.embedding_module import InputModule
from anyformer.parts.embedding.waves import RowNorm, WaveLayer, Waves
from anyformer.parts.pointwise.activation_module import built_activation


class WavesModule(InputModule):
    """(B, samples) -> (B, T, D)."""

    def __init__(self, waves: Waves, width: int) -> None:
        super().__init__()
        sides = waves.sides(width)
        self.layers = nn.ModuleList(
            WaveLayerModule(layer, inputs, outputs) for layer, (outputs, inputs) in zip(waves.layers, sides, strict=True)
        )
        self.norm = waves.norm.build(width) if waves.norm else nn.Identity()

    def forward(self, given: Tensor, padding: Tensor | None, types: Tensor | None) -> Tensor:
        x_BIT = given.to(next(self.parameters()).dtype)[:, None]
        lengths = None if padding is None else (~padding).sum(1)
        for layer in self.layers:
            x_BIT, lengths = layer(x_BIT, lengths)
        return self.norm(x_BIT.mT.contiguous())  # type: ignore[no-any-return]


class WaveLayerModule(nn.Module):
    """Channels (B, I, S) and the length of each row, if they differ -> (B, O, T) and theirs."""

    def __init__(self, layer: WaveLayer, inputs: int, outputs: int) -> None:
        super().__init__()
        self.kernel, self.stride = layer.kernel, layer.stride
        self.weight = nn.Parameter(torch.empty(outputs, inputs, layer.kernel))
        self.bias = nn.Parameter(torch.empty(outputs)) if layer.bias else None
        self.norm = layer.norm.build(outputs) if layer.norm else None
        self.row_norm = RowNormModule(layer.row_norm, outputs) if layer.row_norm else nn.Identity()
        self.late = layer.row_norm_at == "after_activation"
        self.activation = built_activation(layer.activation, outputs)

    def forward(self, x_BIS: Tensor, lengths_B: Tensor | None) -> tuple[Tensor, Tensor | None]:
        x_BOT = F.conv1d(x_BIS, self.weight, self.bias, stride=self.stride)
        if lengths_B is not None:
            lengths_B = (lengths_B - self.kernel).div(self.stride, rounding_mode="floor") + 1
        padding_BT = None if lengths_B is None else beyond(lengths_B, x_BOT.shape[2])
        if self.norm is not None:
            x_BOT = self.norm(x_BOT.mT).mT
        if not self.late:
            x_BOT = self._normed(x_BOT, padding_BT)
        # Activations that learn a number per feature read the features last.
        x_BOT = self.activation(x_BOT.mT).mT
        return (self._normed(x_BOT, padding_BT) if self.late else x_BOT), lengths_B

    def _normed(self, x_BOT: Tensor, padding_BT: Tensor | None) -> Tensor:
        return x_BOT if isinstance(self.row_norm, nn.Identity) else self.row_norm(x_BOT, padding_BT)


class RowNormModule(nn.Module):
    """(B, W, T) and padding (B, T) -> (B, W, T), statistics in fp32."""

    def __init__(self, norm: RowNorm, width: int) -> None:
        super().__init__()
        self.groups, self.eps = norm.groups or width, norm.eps
        self.weight = nn.Parameter(torch.empty(width))
        self.bias = nn.Parameter(torch.empty(width))

    def forward(self, x_BWT: Tensor, padding_BT: Tensor | None) -> Tensor:
        batch, width, length = x_BWT.shape
        x = x_BWT.to(torch.promote_types(x_BWT.dtype, torch.float32)).view(batch, self.groups, -1, length)
        if padding_BT is None:
            mean, variance = x.mean((2, 3), keepdim=True), x.var((2, 3), correction=0, keepdim=True)
        else:
            own = (~padding_BT)[:, None, None]
            count = own.sum(3, keepdim=True) * (width // self.groups)
            mean = x.masked_fill(~own, 0).sum((2, 3), keepdim=True) / count
            variance = (x - mean).square().masked_fill(~own, 0).sum((2, 3), keepdim=True) / count
        normed = ((x - mean) * torch.rsqrt(variance + self.eps)).view(batch, width, length)
        return (normed * self.weight[:, None] + self.bias[:, None]).to(x_BWT.dtype)


def beyond(lengths_B: Tensor, length: int) -> Tensor:
    """Padding (B, T) of rows of which the first so many positions are their own."""
    return torch.arange(length, device=lengths_B.device) >= lengths_B[:, None]
