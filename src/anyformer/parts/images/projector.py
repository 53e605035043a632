"""The base of projectors: from the features of an image's patches to embeddings among those of a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from anyformer.describe import Registry
from anyformer.operations import Tally
from anyformer.parts.sketch import Drawn

if TYPE_CHECKING:
    from torch import nn


class Projector(Drawn):
    """The base of projectors: features (n, S, I) of n images of S positions -> (n, T, D), T tokens for each."""

    kinds: ClassVar[Registry] = Registry()
    kind: str

    @property
    def square(self) -> int:
        """Patches along the side of squares whose patches it reads one after the other; 1 where any order will do."""
        return 1

    def tokens(self, positions: int) -> int:
        """The tokens T that an image of S positions takes; `ValueError` if this projector cannot read so many."""
        raise NotImplementedError

    def build(self, inputs: int, width: int) -> nn.Module:
        """The module, from I = `inputs` features to D = `width`."""
        raise NotImplementedError

    def cost(self, inputs: int, width: int, images: int, positions: int) -> Tally:
        """Its weights, and its work on `images` images of S = `positions` positions."""
        raise NotImplementedError
