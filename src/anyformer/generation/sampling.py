"""Choosing the next token: greedy, or sampled from a distribution cut by temperature, top-k, top-p and min-p."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from anyformer.describe import Value
from anyformer.parts.call.noise import Noise, bits


class Sampling(Value):
    """The choice of a token from logits. The draw is a pure function of (seed, row, index), so a text can be reproduced."""

    temperature: Annotated[float, Field(ge=0)] = 1.0
    """Divides the logits; 0 takes the likeliest token."""
    top_k: Annotated[int, Field(ge=1)] | None = None
    """Keep the k likeliest tokens."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Keep the likeliest tokens until their probabilities reach p (Holtzman et al. 2020, arXiv 1904.09751)."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Keep tokens at least min_p times as likely as the likeliest (arXiv 2407.01082)."""
    seed: Annotated[int, Field(ge=0)] = 0

    def choose(self, logits_BV: Tensor, rows_B: Tensor, index: int | Sequence[int]) -> Tensor:
        """The token number `index` of each row, (B,), one for all or one for each; `rows_B`: the numbers of the rows."""
        if self.temperature == 0:
            return logits_BV.argmax(-1)
        return self.draw(self.distribution(logits_BV), self.uniform(rows_B, index))

    def draw(self, probability_BV: Tensor, uniform_B1: Tensor) -> Tensor:
        """The token that a number from 0 to 1 stands for in each distribution, which need not add up to 1: (B,)."""
        cumulative = probability_BV.double().cumsum(-1)
        # Scaled to the last sum, so that rounding cannot push the draw past the last token with a probability above 0.
        return (cumulative > uniform_B1 * cumulative[:, -1:]).int().argmax(-1)

    def uniform(self, rows_B: Tensor, index: int | Sequence[int], site: int = 0) -> Tensor:
        """Numbers from 0 to 1, (B, 1), by which the token number `index` of each row is drawn; other ones at another `site`."""
        if isinstance(index, int):
            noise = Noise.at(self.seed, index, rows_B)
        else:
            noise = Noise(torch.stack([Noise.at(self.seed, each, rows_B).key for each in index]), rows_B)
        return bits(noise, site, torch.Size((len(rows_B), 1))).double() / 2**32

    def distribution(self, logits_BV: Tensor) -> Tensor:
        """Probabilities after temperature, top-k, top-p and min-p, in this order; the likeliest token always stays. fp32."""
        logits = logits_BV.float() / self.temperature
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            least = logits.topk(self.top_k, -1).values[:, -1:]
            logits = logits.masked_fill(logits < least, float("-inf"))
        if self.top_p is not None and self.top_p < 1:
            ordered, order = logits.softmax(-1).sort(-1, descending=True)
            beyond = ordered.cumsum(-1) - ordered >= self.top_p
            logits = logits.masked_fill(torch.zeros_like(beyond).scatter(-1, order, beyond), float("-inf"))
        probability = logits.softmax(-1)
        if self.min_p is not None:
            probability = torch.where(probability >= self.min_p * probability.amax(-1, keepdim=True), probability, 0.0)
            probability = probability / probability.sum(-1, keepdim=True)
        return probability
