"""What a query sees: every attention asks here."""

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
        """What the queries made of x see among `keys`, without a mask of the source; `banded`: as a band where one holds it.

        A part that chooses keys by data, which is why x is here, narrows what the mask allows (`Visible.narrowed`).
        """
        if self.mask is None or keys is None:
            return context.visible_source()
        return context.visible(self.mask, keys, banded=banded)
