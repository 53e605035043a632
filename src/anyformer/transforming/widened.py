"""Feed-forward networks with more features."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anyformer.transforming.choices import TransformChoices
from anyformer.transforming.errors import TransformError
from anyformer.transforming.operation import Fresh, MadeWeight
from anyformer.transforming.resized import Resized


def widened(change: Resized, choices: TransformChoices) -> NewFeatures:
    """The rule from F to more features."""
    if not change.grows:
        raise TransformError(
            f"{change.where}: {change.old} -> {change.new} features of the network: none are taken away, since which "
            "ones matter depends on the data; keep the width, or make it larger"
        )
    return NewFeatures(change.old, change.new, change.writes)


@dataclass(frozen=True)
class NewFeatures:
    """New features, initialised by the description's rules, with no way out: their columns of the last projection are 0.

    The function stays the same, as in Net2Net (Chen et al. 2015, arXiv 1511.05641), whose new features are copies that share
    their way out; with zeros instead they need no noise to differ.
    """

    old: int
    new: int
    writes: bool

    @property
    def words(self) -> str:
        return f"features {self.old:,} to {self.new - 1:,} are {'0' if self.writes else 'new'}"

    def __call__(self, x: Tensor, dim: int, fresh: Fresh) -> MadeWeight:
        added = fresh().narrow(dim, self.old, self.new - self.old)
        return MadeWeight(torch.cat([x, (torch.zeros_like(added) if self.writes else added).to(x.dtype)], dim), "kept")
