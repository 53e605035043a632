"""Rotary positions: queries and keys rotated by an angle that grows with their position."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from anyformer.describe import Digested, Moderate
from anyformer.operations import Limit, Shape, Tally
from anyformer.operations.elementwise import rotated
from anyformer.parts.positions.place import Place, Positioned
from anyformer.parts.positions.rotary_axes import RotaryAxes
from anyformer.parts.positions.rotary_scaling import RotaryScaling
from anyformer.parts.sketch import Cell, number
from anyformer.parts.slot import HeadSizes, Side

if TYPE_CHECKING:
    from torch import Tensor


class Rotary(Place):
    """Rotate each pair of features i by the angle t * theta^(-2i / R), i < R / 2 (Su et al. 2021, arXiv 2104.09864).

    R = fraction * E features of a head are rotated. `pairing`: feature i goes with i + R/2 (`halves`:
    Llama, NeoX) or with its neighbour (`adjacent`: the paper, GPT-J). The paper's base 10000 is our theta.
    """

    name: ClassVar[str] = "rotary"
    theta: Moderate = 10_000.0
    fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    pairing: Literal["halves", "adjacent"] = "halves"
    rotate_in: Literal["input", "fp32"] = "input"
    """Type in which the rotation is computed: that of the activations (Llama) or fp32 (OLMo, Cohere)."""
    place: Literal["first", "last"] = "first"
    """The place in a head of the R rotated features."""
    scaling: RotaryScaling | None = None
    """Changed frequencies, for longer texts."""
    axes: RotaryAxes | None = None
    """Which pairs turn by which of a token's positions, where tokens have several: those of images (M-RoPE)."""

    @model_validator(mode="after")
    def _theta_fits(self) -> Rotary:
        if self.scaling is not None:
            self.scaling.check_theta(self.theta)
        return self

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Contracts that the scaling breaks."""
        return self.scaling.limits if self.scaling else ()

    @property
    def cell(self) -> Cell:
        facts = [f"rotary θ {number(self.theta)}"]
        facts += [f"{self.fraction:.4g} of each head"] if self.fraction < 1 else []
        facts += [self.scaling.words] if self.scaling is not None else []
        return Cell(" · ".join(facts), "position")

    @property
    def position(self) -> str:
        return "RoPE"

    def check(self, sizes: HeadSizes) -> None:
        self.rotated(sizes.head_width)

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        return {"rotary": Digested.of(self)}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        heads = sizes.heads + (sizes.groups if sizes.own_keys else 0)
        return Tally(own_work={"rotary": rotated(shape.rows * self.rotated(sizes.head_width) * heads)})

    def turned(self, x_BTHE: Tensor, side: Side, context: Positioned, built: Any) -> Tensor:
        return context.rotated(x_BTHE, built.rotary)

    def rotated(self, head_width: int) -> int:
        """R, the rotated features of a head; refuses an odd number."""
        dims = floor(head_width * self.fraction)
        if dims < 2 or dims % 2:
            raise ValueError(
                "rotary turns pairs, so head width * fraction must be even and at least 2, "
                f"got {head_width} * {self.fraction} = {dims}"
            )
        if self.scaling is not None:
            self.scaling.check(dims // 2)
        if self.axes is not None:
            self.axes.check(dims // 2)
        return dims

    def pairs(self, head_width: int) -> tuple[tuple[int, int], ...]:
        """The features of a head that turn together, fastest pair first."""
        dims = self.rotated(head_width)
        start = 0 if self.place == "first" else head_width - dims
        if self.pairing == "adjacent":
            return tuple((start + i, start + i + 1) for i in range(0, dims, 2))
        return tuple((start + i, start + i + dims // 2) for i in range(dims // 2))
