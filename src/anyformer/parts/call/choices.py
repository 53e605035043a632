"""Experts that layers choose for every token: noted while a model samples, and given to another pass over the same tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ChoiceKey = tuple[str, int]
"""The name of a layer's module, and how many layers with the same weights stand before it."""
NO_CHOICE = -1
"""Stands where no experts are given: the layer chooses."""


class ChoosesExperts(nn.Module):
    """The base of modules that choose experts for every token."""

    name: str
    chosen: int
    """J, the experts of a token."""


@dataclass(frozen=True)
class Choices:
    """What is known of the choices of a call, (B, T, J) for each layer: `given` ones are taken, `NO_CHOICE` leaves them to the
    layer; the taken ones are added to `noted`, call by call, if anybody wants them.

    `first`: positions that stand in front of those of the call; `order`: that in which a stack computes them.
    """

    given: Mapping[ChoiceKey, Tensor] = field(default_factory=dict)
    noted: dict[ChoiceKey, list[Tensor]] | None = None
    first: int = 0
    order: Tensor | None = None

    def taken(self, key: ChoiceKey, own_BTJ: Tensor) -> Tensor:
        """The choices that a layer goes on with, of its own."""
        given_BTJ = self.given.get(key)
        if given_BTJ is not None:
            given_BTJ = F.pad(given_BTJ.to(own_BTJ.dtype), (0, 0, self.first, 0), value=NO_CHOICE)
            given_BTJ = given_BTJ if self.order is None else _at(given_BTJ, self.order)
            own_BTJ = torch.where(given_BTJ == NO_CHOICE, own_BTJ, given_BTJ)
        if self.noted is not None:
            whole = own_BTJ if self.order is None else _at(own_BTJ, self.order.argsort(1))
            self.noted.setdefault(key, []).append(whole[:, self.first :])
        return own_BTJ

    def after(self, first: int) -> Choices:
        """The same of a call with `first` positions in front."""
        return replace(self, first=self.first + first)

    def ordered(self, order_BT: Tensor) -> Choices:
        """The same of positions that a stack computes in another order."""
        return replace(self, order=order_BT)


@dataclass(frozen=True)
class ChoiceLayout:
    """The choices of all layers side by side, (B, T, S): where those of each stand."""

    places: Mapping[ChoiceKey, slice] = field(default_factory=dict)

    @staticmethod
    def of(counts: Mapping[ChoiceKey, int]) -> ChoiceLayout:
        """J of each layer, in order."""
        ends, places = 0, {}
        for key, count in counts.items():
            places[key] = slice(ends, ends + count)
            ends += count
        return ChoiceLayout(places)

    @property
    def size(self) -> int:
        """S; 0 where no layer chooses."""
        return max((place.stop for place in self.places.values()), default=0)

    def given(self, choices_BTS: Tensor) -> Choices:
        """Choices to be taken."""
        return Choices({key: choices_BTS[..., place] for key, place in self.places.items()})

    def joined(self, noted: Mapping[ChoiceKey, list[Tensor]], call: int) -> Tensor:
        """(B, T, S) int16: those noted in a call."""
        return torch.cat([noted[key][call].to(torch.int16) for key in self.places], -1)


def _at(x_BTJ: Tensor, order_BT: Tensor) -> Tensor:
    """The positions in another order."""
    return x_BTJ.gather(1, order_BT[..., None].expand(-1, -1, x_BTJ.shape[-1]))
