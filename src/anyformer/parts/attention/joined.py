"""An earlier stream beside the one that attention reads."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.describe import Value
from anyformer.operations import Tally, total
from anyformer.parts.call.context import Context
from anyformer.parts.call.shared import STREAM, Read
from anyformer.parts.norms.norm import Norm


class Joined(Value):
    """x' = norm([x; e]), e an earlier residual stream of the same tokens, both (B, T, D): (B, T, 2 D), read by projections.

    Zamba (Glorioso et al. 2024, arXiv 2405.16712): e is what entered the layers.
    """

    variant: str | None = None
    """The variant whose latest layer before left the stream; None: what entered the layers."""
    norm: Norm | None = None
    """Norm of both side by side."""

    @property
    def read(self) -> Read:
        """The stream that it reads."""
        return Read(STREAM, self.variant)

    @property
    def words(self) -> str:
        """What it reads beside the stream, for pictures."""
        return f"beside {'what entered the layers' if self.variant is None else f'the stream after {self.variant}'}"

    def check(self, width: int) -> None:
        """Refuse a width that does not fit."""
        if self.norm is not None:
            self.norm.check(2 * width)

    def build(self, width: int) -> JoinedModule:
        return JoinedModule(self, width)

    def cost(self, width: int, rows: int) -> Tally:
        return Tally() if self.norm is None else total({"norm": self.norm.cost(2 * width, rows)})


class JoinedModule(nn.Module):
    """(B, T, D) -> (B, T, 2 D)."""

    def __init__(self, joined: Joined, width: int) -> None:
        super().__init__()
        self.variant = joined.variant
        self.norm = joined.norm.build(2 * width) if joined.norm else nn.Identity()

    def forward(self, x_BTD: Tensor, context: Context) -> Tensor:
        return self.norm(torch.cat([x_BTD, context.shared[self.variant, STREAM].to(x_BTD.dtype)], -1))  # type: ignore[no-any-return]
