"""The module of Fourier transforms in place of attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.call.context import Context


class FourierMixingModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def forward(self, x_BTD: Tensor, context: Context, state: None = None) -> Tensor:
        # Fast transforms in 16 bits exist on some devices and for powers of 2 alone.
        wide_BTD = x_BTD.to(torch.promote_types(x_BTD.dtype, torch.float32))
        mixed_BTD: Tensor = torch.fft.fft2(wide_BTD, dim=(1, 2)).real
        return mixed_BTD.to(x_BTD.dtype)
