"""`SpecAugment`: bands and stretches of a sound's features that are hidden in training."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from anyformer.describe import Count, Value
from anyformer.parts.call.noise import Noise, uniform

Masks = Annotated[int, Field(ge=0)]


class SpecAugment(Value):
    """Masks over frequency and time (Park et al. 2019, arXiv 1904.08779), without its time warping, which changes least.

    A mask over frequency hides f features from f0 on, f uniform in 0 ... `bins`, f0 in 0 ... I - f; one over time hides t
    frames, t uniform in 0 ... min(`frames`, `share` * T). What is hidden is the mean of the sound's features. Masks depend on
    the seed, the step and the sample's number alone. The defaults are the paper's policy LD.
    """

    frequency_masks: Masks = 2
    """Masks over frequency of a sound."""
    bins: Count = 27
    """Features that such a mask hides at most."""
    time_masks: Masks = 2
    """Masks over time of a sound."""
    frames: Count = 100
    """Frames that such a mask hides at most."""
    share: Annotated[float, Field(ge=0, le=1)] = 1.0
    """The share of its frames that such a mask hides at most."""

    def apply(self, features_BIT: Tensor, noise: Noise, lengths_B: Tensor | None = None) -> Tensor:
        """Features (B, I, T) with some hidden; `lengths_B`: the frames of sounds that padding follows, which stays as it is."""
        batch, inputs, length = features_BIT.shape
        device = features_BIT.device
        lengths_B = torch.full((batch,), length, device=device) if lengths_B is None else lengths_B.to(device)
        sizes_B = torch.full((batch,), inputs, device=device)
        most_B = torch.minimum(lengths_B * self.share, torch.full_like(lengths_B, self.frames))
        draws_B = noise.other(0), noise.other(1)
        hidden_BI = _masks(draws_B[0], self.frequency_masks, torch.full_like(sizes_B, self.bins), sizes_B, inputs)
        hidden_BT = _masks(draws_B[1], self.time_masks, most_B, lengths_B, length)
        real_B1T = (torch.arange(length, device=device) < lengths_B[:, None])[:, None]
        mean_B11 = (features_BIT * real_B1T).sum((1, 2), keepdim=True) / (inputs * lengths_B.clamp_min(1))[:, None, None]
        hidden_BIT = (hidden_BI[:, :, None] | hidden_BT[:, None]) & real_B1T
        return torch.where(hidden_BIT, mean_B11.to(features_BIT.dtype), features_BIT)


def _masks(noise: Noise, count: int, most_B: Tensor, sizes_B: Tensor, length: int) -> Tensor:
    """(B, length) bool: `count` runs of 0 ... `most_B` places within the first `sizes_B`."""
    draws = uniform(noise, 0, torch.Size((len(sizes_B), max(1, count), 2)))[:, :count]
    most = torch.minimum(most_B, sizes_B).floor()[:, None]
    wide = (draws[..., 0] * (most + 1)).floor()
    begin = (draws[..., 1] * (sizes_B[:, None] - wide + 1)).floor()
    places = torch.arange(length, device=sizes_B.device)
    return ((places >= begin[..., None]) & (places < (begin + wide)[..., None])).any(1)
