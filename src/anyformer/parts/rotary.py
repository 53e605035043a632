"""Rotary positions: queries and keys turned by an angle that grows with their position."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from anyformer.describe import Value
from anyformer.tally import Limit


class Rotary(Value):
    """Rotate each pair of features i by the angle t * theta^(-2i / R), i < R / 2 (Su et al. 2021, arXiv 2104.09864).

    R = fraction * E features of a head are rotated, the first ones. `pairing`: feature i goes with i + R/2 (`halves`:
    Llama, NeoX) or with its neighbour (`adjacent`: the paper, GPT-J). The paper's base 10000 is our theta.
    """

    theta: Annotated[float, Field(gt=0)] = 10_000.0
    fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    pairing: Literal["halves", "adjacent"] = "halves"
    rotate_in: Literal["input", "fp32"] = "input"
    """Type in which the rotation itself is computed: the activations' (Llama) or fp32 (OLMo, Cohere)."""

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Contracts that the scaling breaks."""
        return ()

    def rotated(self, head_width: int) -> int:
        """R, the rotated features of a head; refuses an odd number."""
        dims = int(head_width * self.fraction)
        if dims < 2 or dims % 2:
            raise ValueError(
                "rotary turns pairs, so head width * fraction must be even and at least 2, "
                f"got {head_width} * {self.fraction} = {dims}"
            )
        return dims

    def angles(self, positions_BT: Tensor, head_width: int) -> Tensor:
        """(B, T) -> (B, T, R / 2) in fp32."""
        dims = self.rotated(head_width)
        index = torch.arange(0, dims, 2, device=positions_BT.device, dtype=torch.float32)
        return positions_BT.float()[..., None] * self.theta ** (-index / dims)

    def table(self, positions_BT: Tensor, head_width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Cosines and sines, (B, T, 1, R) each, laid out for `rotate`."""
        angles = self.angles(positions_BT, head_width)
        spread = angles.repeat_interleave(2, -1) if self.pairing == "adjacent" else torch.cat([angles, angles], -1)
        kind = dtype if self.rotate_in == "input" else torch.float32
        return spread.cos()[..., None, :].to(kind), spread.sin()[..., None, :].to(kind)

    def rotate(self, x_BTHE: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        """Turn the first R features of every head; the others pass."""
        cos, sin = table
        dims = cos.shape[-1]
        x, rest = x_BTHE[..., :dims], x_BTHE[..., dims:]
        turned = (x * cos + _quarter_turn(x, self.pairing) * sin).to(x_BTHE.dtype)
        return torch.cat([turned, rest], -1) if rest.shape[-1] else turned


def _quarter_turn(x: Tensor, pairing: str) -> Tensor:
    """Each pair (a, b) -> (-b, a)."""
    if pairing == "adjacent":
        return torch.stack([-x[..., 1::2], x[..., 0::2]], -1).flatten(-2)
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)
