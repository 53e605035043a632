"""Rows of a vocabulary: the first are kept, new ones are their mean."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from anyformer.transforming.choices import TransformChoices
from anyformer.transforming.operation import Fresh, MadeWeight
from anyformer.transforming.resized import Resized


def rewritten(change: Resized, choices: TransformChoices) -> VocabularyRows:
    """The rule from V to V' rows."""
    return VocabularyRows(change.old, change.new, change.path, choices.noise, choices.seed)


@dataclass(frozen=True)
class VocabularyRows:
    """The first min(V, V') rows as they are; each new row is the mean of all old ones, plus `noise` standard deviations.

    The logit of a row at the mean is the mean of the logits, so n such rows make the sum of exponentials larger by a factor of
    at most 1 + n / V, and the loss by its logarithm (Hewitt 2021, "Initializing new word embeddings for pretrained language
    models"). Logits of old tokens are the same numbers.
    """

    old: int
    new: int
    name: str
    noise: float
    seed: int

    @property
    def words(self) -> str:
        if self.new < self.old:
            return f"rows {self.new:,} to {self.old - 1:,} left out"
        noise = f" plus noise of {self.noise:g} of their standard deviation" if self.noise else ""
        return f"rows {self.old:,} to {self.new - 1:,} are the mean of the others{noise}"

    def __call__(self, x: Tensor, dim: int, fresh: Fresh) -> MadeWeight:
        if self.new <= self.old:
            return MadeWeight(x.narrow(dim, 0, self.new), "kept")
        rows = x.double()
        mean, spread = rows.mean(dim, keepdim=True), rows.std(dim, keepdim=True)
        count = self.new - self.old
        added = mean.repeat_interleave(count, dim)
        if self.noise:
            added = added + self.noise * spread * self._drawn(added)
        return MadeWeight(torch.cat([x, added.to(x.dtype)], dim), "kept")

    def _drawn(self, like: Tensor) -> Tensor:
        """Numbers of N(0, 1) that depend on the seed, the name and the shape alone."""
        key = hashlib.sha256(f"{self.seed}/{self.name}/{tuple(like.shape)}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(key[:8], "big") >> 1)
        return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like.device)
