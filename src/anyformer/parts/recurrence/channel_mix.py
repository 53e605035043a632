"""The base of RWKV's channel mixings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Self

from anyformer.describe import Count
from anyformer.operations import Watchables, value
from anyformer.parts.pointwise.activation import activation_name
from anyformer.parts.sublayer import Network, Resizing, Sublayer, Traits

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import ConvolutionState


class ChannelMix(Sublayer):
    """A network of F features with squared ReLU that reads the token before too."""

    kind: str
    width: Count
    """F; 4 D in the paper."""

    @property
    def resizing(self) -> Resizing:
        return Resizing(network=Network(self.width, gated=False))

    def narrowed(self, width: int, ways: int) -> Self | None:
        return None if self.width % ways else self.but(width=self.width // ways)

    @property
    def traits(self) -> Traits:
        return Traits(activation=activation_name("relu_squared", gated=False))

    def watchable(self, width: int) -> Watchables:
        up = value("BTF", "the up projection, before its squared ReLU", F=self.width)
        return {"up": up, "hidden": replace(up, about="what the down projection reads")}

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> ConvolutionState:
        """B * D elements, the latest input, for any capacity."""
        from anyformer.parts.recurrence.short_convolution_module import latest_input

        return latest_input(width, batch, dtype, device)
