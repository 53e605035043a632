"""Relative logits whose states are bounded in length, and may grow with the position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator

from anyformer.describe import Positive, with_kind
from anyformer.operations import Shape, Tally, Weight
from anyformer.operations.elementwise import normalised
from anyformer.parts.attention.length_clip import WORK
from anyformer.parts.attention.relative_logits import RelativeLogits
from anyformer.parts.attention.temperature import Temperature
from anyformer.parts.slot import HeadSizes

if TYPE_CHECKING:
    from anyformer.parts.attention.clipped_relative_logits_module import ClippedRelativeLogitsModule


class ClippedRelativeLogits(RelativeLogits):
    """`RelativeLogits` of min(1, c / |g * r_t|) g * r_t in place of r_t, g (H, P) learned (Inkling 2; transformers 5.23)."""

    kind: Literal["clipped_relative_logits"] = "clipped_relative_logits"  # type: ignore[assignment]
    bound: Positive = 8.0
    """c."""
    temperature: Annotated[Temperature, BeforeValidator(with_kind("late_temperature"))] | None = None
    """A factor of the states by their position."""

    def module(self, sizes: HeadSizes) -> ClippedRelativeLogitsModule:
        from anyformer.parts.attention.clipped_relative_logits_module import ClippedRelativeLogitsModule

        return ClippedRelativeLogitsModule(self, sizes)

    def work(self, sizes: HeadSizes, shape: Shape) -> Tally:
        weight = Weight((sizes.heads, self.features), "replicate", "ones", linear=False)
        clip = normalised(self.features, shape.rows * sizes.heads, (WORK + 1) * self.features)
        return super().work(sizes, shape) + Tally({"scale": weight}, {"clip": clip})
