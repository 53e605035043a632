"""The keys that a query sees: the one place where every attention gets them."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.describe import Digested
from anyformer.parts.call.context import Context, Visible
from anyformer.parts.call.state import Keys
from anyformer.parts.masks.mask import Mask


class Attends(nn.Module):
    """The base of attention modules; `mask` is None in one that reads a source."""

    def __init__(self, mask: Mask | None) -> None:
        super().__init__()
        self.mask = None if mask is None else Digested.of(mask)

    def visible(self, x_BTD: Tensor, context: Context, keys: Keys | None = None, *, banded: bool = False) -> Visible:
        """The keys among `keys` that the queries of x see; without a mask, those of the source. `banded`: a band if possible.

        A part that selects keys by data (x) overrides this, and narrows the visible keys with `Visible.narrowed`.
        """
        if self.mask is None or keys is None:
            return context.visible_source()
        return context.visible(self.mask, keys, banded=banded)
