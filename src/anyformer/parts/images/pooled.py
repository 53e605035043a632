"""A projector that averages squares of patches (Gemma 3)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from anyformer.describe import Count
from anyformer.operations import Tally, matrix, total
from anyformer.parts.images.projector import Projector
from anyformer.parts.norms.norm import Norm
from anyformer.parts.sketch import Sketch, number

if TYPE_CHECKING:
    from anyformer.parts.images.pooled_module import PooledModule


class PooledProjector(Projector):
    """y = W norm(mean of a square of patches), W (D, I): an image becomes side x side tokens, however many patches it has.

    Gemma Team 2025, "Gemma 3 Technical Report" (arXiv 2503.19786), section 2.2: 256 tokens of 4096 patches.
    """

    kind: Literal["pooled"] = "pooled"
    side: Count
    """Tokens along a side of an image; their square is `mm_tokens_per_image` in transformers."""
    norm: Norm | None = None
    bias: bool = False

    def sketch(self, width: int) -> Sketch:
        norm = [] if self.norm is None else [type(self.norm).__name__]
        return Sketch("Projector", (f"means to {self.side} × {self.side}", *norm, f"→ {number(width)}"))

    def tokens(self, positions: int) -> int:
        side = math.isqrt(positions)
        if side * side != positions or side % self.side:
            raise ValueError(
                f"an image has {positions} positions, and {self.side} x {self.side} means need a square of them whose side "
                f"{self.side} divides: choose another side, patch or image, or skip positions that are no patches"
            )
        return self.side * self.side

    def build(self, inputs: int, width: int) -> PooledModule:
        from anyformer.parts.images.pooled_module import PooledModule

        return PooledModule(self, inputs, width)

    def cost(self, inputs: int, width: int, images: int, positions: int) -> Tally:
        rows = images * self.tokens(positions)
        norm = total({"norm": self.norm.cost(inputs, rows)}) if self.norm else Tally()
        return norm + matrix("projection", inputs, width, rows, role="column", bias=self.bias)
