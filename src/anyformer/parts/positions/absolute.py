"""Absolute positions, added to the input of a stack: a learned table or fixed sinusoids."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from anyformer.describe import Count, Moderate, Registry
from anyformer.operations import Tally, Weight
from anyformer.parts.lookup import rows_of
from anyformer.parts.sketch import Drawn, Sketch, number


class Position(Drawn):
    """The base of absolute positions: a vector for each position, added to the stream."""

    kinds: ClassVar[Registry] = Registry()
    kind: str
    position_name: ClassVar[str]
    """Its name in tables of architectures."""
    length: int | None = None
    """Longest sequence, in positions; None without limit."""

    def check(self, width: int) -> None:
        """Refuse a width that does not fit."""

    def build(self, width: int) -> nn.Module:
        """The module: positions (B, T) -> (B, T, D)."""
        raise NotImplementedError

    def cost(self, width: int) -> Tally:
        """Its weights."""
        return Tally()


class LearnedPosition(Position):
    """A learned vector per position: x_t + P[t + offset], P (length + offset, D) (BERT, GPT-2; OPT and BART: offset 2)."""

    position_name: ClassVar[str] = "learned"
    kind: Literal["learned_position"] = "learned_position"
    length: Count
    """Longest sequence, in positions."""
    offset: Annotated[int, Field(ge=0)] = 0
    """Rows before position 0 that no token uses."""

    def sketch(self, width: int) -> Sketch:
        return Sketch("Learned positions", (f"{self.length:,} × {number(width)}",))

    def build(self, width: int) -> LearnedPositionModule:
        return LearnedPositionModule(self, width)

    def cost(self, width: int) -> Tally:
        shape = (self.length + self.offset, width)
        return Tally({"weight": Weight(shape, "replicate", "embedding", axes=((("positions", self.length),), ()))})


class LearnedPositionModule(nn.Module):
    def __init__(self, position: LearnedPosition, width: int) -> None:
        super().__init__()
        self.length, self.offset = position.length, position.offset
        self.weight = nn.Parameter(torch.empty(position.length + position.offset, width))

    def forward(self, positions_BT: Tensor) -> Tensor:
        return rows_of(self.weight, positions_BT + self.offset, "positions")


class SinusoidalPosition(Position):
    """Fixed waves: x_t + P[t + offset], P[t] = sin and cos of t * theta^(-2i / n), i < D / 2 (arXiv 1706.03762, section 3.5).

    `layout`: sines and cosines interleaved (the paper) or in two halves. `spacing`: n = D (the paper), or n = D - 2, so
    that the slowest wave is exactly 1 / theta (fairseq).
    """

    position_name: ClassVar[str] = "sinusoidal"
    kind: Literal["sinusoidal_position"] = "sinusoidal_position"
    layout: Literal["interleaved", "halves"] = "interleaved"
    spacing: Literal["paper", "inclusive"] = "paper"
    theta: Moderate = 10_000.0
    offset: Annotated[int, Field(ge=0)] = 0

    def sketch(self, width: int) -> Sketch:
        return Sketch("Sinusoidal positions", (f"θ {number(self.theta)}",))

    def check(self, width: int) -> None:
        if width % 2 or (self.spacing == "inclusive" and width < 4):
            raise ValueError(
                f"sinusoidal positions pair sines with cosines, so the width must be even (inclusive: at least 4), got {width}"
            )

    def build(self, width: int) -> SinusoidalPositionModule:
        return SinusoidalPositionModule(self, width)


class SinusoidalPositionModule(nn.Module):
    """Computes the waves at each call: no table to size, no buffer to lose."""

    def __init__(self, position: SinusoidalPosition, width: int) -> None:
        super().__init__()
        self.position, self.width, self.length = position, width, position.length

    def forward(self, positions_BT: Tensor) -> Tensor:
        return sinusoids(positions_BT, self.width, self.position)


def sinusoids(positions: Tensor, width: int, position: SinusoidalPosition) -> Tensor:
    """(...) -> (..., D) in fp32."""
    span = width if position.spacing == "paper" else width - 2
    index = torch.arange(width // 2, device=positions.device, dtype=torch.float32)
    angle = (positions + position.offset).float()[..., None] * position.theta ** (-2 * index / span)
    waves = angle.sin(), angle.cos()
    return torch.cat(waves, -1) if position.layout == "halves" else torch.stack(waves, -1).flatten(-2)
