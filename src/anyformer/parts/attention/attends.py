"""Which keys a query sees: the one place where every attention asks."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.call.context import Context, Digested, Visible
from anyformer.parts.call.state import Keys
from anyformer.parts.masks.mask import Mask


class Attends(nn.Module):
    """A module of attention. `mask` is None of one that reads a source."""

    def __init__(self, mask: Mask | None) -> None:
        super().__init__()
        self.mask = None if mask is None else Digested.of(mask)

    def visible(self, x_BTD: Tensor, context: Context, keys: Keys | None = None, *, banded: bool = False) -> Visible:
        """Which of `keys` the queries made of x see; without a mask, which of the source. `banded`: as a band where possible.

        A part that chooses keys by data (x) narrows here what the mask allows, with `Visible.narrowed`.
        """
        if self.mask is None or keys is None:
            return context.visible_source()
        return context.visible(self.mask, keys, banded=banded)
