"""The modules of absolute positions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.lookup import rows_of
from anyformer.parts.positions.absolute import GappedPosition, LearnedPosition, SinusoidalGrid, SinusoidalPosition


class PositionModule(nn.Module):
    """The base of modules of absolute positions."""

    def forward(self, positions_BT: Tensor, x_BTD: Tensor) -> Tensor:
        """The vectors (B or 1, T, D) that are added to the stream x; positions of padding are negative."""
        raise NotImplementedError


class LearnedPositionModule(PositionModule):
    def __init__(self, position: LearnedPosition, width: int) -> None:
        super().__init__()
        self.length, self.offset = position.length, position.offset
        self.weight = nn.Parameter(torch.empty(position.length + position.offset, width))

    def forward(self, positions_BT: Tensor, x_BTD: Tensor) -> Tensor:
        return rows_of(self.weight, positions_BT.clamp(min=0) + self.offset, "positions")


class GappedPositionModule(PositionModule):
    """Positions (B, T) -> (B, T, D), zeros where a position has no vector."""

    def __init__(self, position: GappedPosition, width: int) -> None:
        super().__init__()
        self.length, self.start, self.gap = position.length, position.start, position.gap
        self.weight = nn.Parameter(torch.empty(position.length - position.gap, width))

    def forward(self, positions_BT: Tensor, x_BTD: Tensor) -> Tensor:
        positions_BT = positions_BT.clamp(min=0)
        behind = positions_BT >= self.start + self.gap
        without = (positions_BT >= self.start) & ~behind
        rows = (positions_BT - self.gap * behind).masked_fill(without, 0)
        return rows_of(self.weight, rows, "positions").masked_fill(without[..., None], 0.0)


class SinusoidalPositionModule(PositionModule):
    """Computes the waves at every call: no table to size, no buffer to lose."""

    def __init__(self, position: SinusoidalPosition, width: int) -> None:
        super().__init__()
        self.position, self.width, self.length = position, width, position.length

    def forward(self, positions_BT: Tensor, x_BTD: Tensor) -> Tensor:
        return sinusoids(positions_BT.clamp(min=0), self.width, self.position)


class SinusoidalGridModule(PositionModule):
    """Computes the waves of columns and rows at every call."""

    def __init__(self, position: SinusoidalGrid, width: int) -> None:
        super().__init__()
        self.position, self.width, self.length = position, width, position.length

    def forward(self, positions_BT: Tensor, x_BTD: Tensor) -> Tensor:
        return grid_sinusoids(positions_BT.clamp(min=0), self.width, self.position)


def sinusoids(positions: Tensor, width: int, position: SinusoidalPosition) -> Tensor:
    """(...) -> (..., D) in fp32."""
    span = width if position.spacing == "paper" else width - 2
    index = torch.arange(width // 2, device=positions.device, dtype=torch.float32)
    angle = (positions + position.offset).float()[..., None] * position.theta ** (-2 * index / span)
    waves = angle.sin(), angle.cos()
    ordered = waves[::-1] if position.layout == "cosines_first" else waves
    side_by_side = torch.stack(waves, -1).flatten(-2) if position.layout == "interleaved" else torch.cat(ordered, -1)
    return side_by_side if position.scale == 1 else side_by_side * position.scale


def grid_sinusoids(positions: Tensor, width: int, position: SinusoidalGrid) -> Tensor:
    """(...) -> (..., D) in fp32: the waves of the column, then those of the row."""
    places = torch.stack([positions % position.columns, positions // position.columns], -1).float()
    index = torch.arange(width // 4, device=positions.device, dtype=torch.float32)
    angles = places[..., None] * position.theta ** (-4 * index / width)
    return torch.cat([angles.sin(), angles.cos()], -1).flatten(-2)
