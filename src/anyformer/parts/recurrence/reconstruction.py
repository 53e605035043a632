"""The loss of a normalised guess, |norm(z) - target|^2 / 2, by its gradient, and the gradient of that."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Reconstruction(NamedTuple):
    """d/dz |gain * u + bias - target|^2 / 2 with u = (z - mean(z)) / deviation(z), over the last dimension E, and its factors.

    The gradient through a norm is (h - mean(h) - u mean(h * u)) / deviation of h = gain * (gain * u + bias - target).
    """

    error: Tensor
    unit: Tensor
    inverse: Tensor
    """1 / deviation."""
    above: Tensor
    """h."""
    wrong: Tensor
    """gain * u + bias - target."""
    gain: Tensor

    @classmethod
    def of(cls, z: Tensor, target: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Reconstruction:
        z = z - z.mean(-1, keepdim=True)
        inverse = torch.rsqrt(z.square().mean(-1, keepdim=True) + eps)
        unit = z * inverse
        wrong = gain * unit + bias - target
        above = gain * wrong
        return cls(_across(above, unit) * inverse, unit, inverse, above, wrong, gain)

    def gradients(self, d_error: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The gradients of z, target, gain and bias, the latter two summed over all but the heads: (H, 1, E)."""
        d_above = _across(d_error, self.unit) * self.inverse
        d_wrong = self.gain * d_above
        d_unit = self.gain * d_wrong - self.inverse * (
            d_error * (self.above * self.unit).mean(-1, keepdim=True)
            + self.above * (d_error * self.unit).mean(-1, keepdim=True)
        )
        # The deviation divides the error once more.
        d_scale = (d_error * self.error).mean(-1, keepdim=True)
        d_z = (_across(d_unit, self.unit) - self.unit * d_scale) * self.inverse
        d_gain = (d_above * self.wrong + d_wrong * self.unit).sum((0, 2))[:, None]
        return d_z, -d_wrong, d_gain, d_wrong.sum((0, 2))[:, None]


def _across(x: Tensor, unit: Tensor) -> Tensor:
    """x without its mean and without what of it is along `unit`."""
    return x - x.mean(-1, keepdim=True) - unit * (x * unit).mean(-1, keepdim=True)
