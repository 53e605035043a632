"""What a norm shows of what it computes."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, nn


class NormReader(Protocol):
    """Whoever asks for values inside a norm."""

    def see(self, name: str, value: Tensor) -> Tensor:
        """The value of this name, with which the norm goes on."""

    def wants(self, *names: str) -> bool:
        """Whether anybody asks for a value of one of these names."""


class ShowsInside(nn.Module):
    """The base of norms with values inside."""

    def opened(self, x_D: Tensor, shown: NormReader) -> Tensor:
        """What `forward` gives, by way of the values inside."""
        raise NotImplementedError
