"""Modules that keep running statistics of what they see in training."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import nn


class CountingModule(nn.Module):
    """A module whose running statistics, parameters without a gradient, move with every forward pass in training.

    `counts`: whether they move now.
    """

    counts = True

    @property
    def counting(self) -> bool:
        """Whether this pass is one of training that is counted."""
        return self.training and self.counts


@contextlib.contextmanager
def standing_still(module: nn.Module) -> Iterator[None]:
    """Keep running statistics constant: a layer that is computed again has counted its batch already."""
    found = [inner for inner in module.modules() if isinstance(inner, CountingModule)]
    for inner in found:
        inner.counts = False
    try:
        yield
    finally:
        for inner in found:
            inner.counts = True
