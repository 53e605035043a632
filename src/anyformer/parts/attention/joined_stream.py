"""An earlier stream beside the one that attention reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from anyformer.operations import Shape, Tally, total
from anyformer.parts.attention.slots import Adjustment, AttentionCall
from anyformer.parts.call.context import Context
from anyformer.parts.call.shared import STREAM, Read
from anyformer.parts.norms.norm import Norm
from anyformer.parts.slot import HeadSizes, Way


class Joined(Adjustment):
    """x' = norm([x; e]), e an earlier residual stream of the same tokens, both (B, T, D): (B, T, 2 D), read by projections.

    Zamba (Glorioso et al. 2024, arXiv 2405.16712): e is what entered the layers.
    """

    name: ClassVar[str] = "joined"
    rules_out: ClassVar[frozenset[Way]] = frozenset({"chosen keys", "divided positions", "source", "two inputs", "latent"})
    variant: str | None = None
    """The variant whose latest layer before left the stream; None: what entered the layers."""
    norm: Norm | None = None
    """Norm of both side by side."""

    def reads(self, groups: int) -> tuple[Read, ...]:
        return (Read(STREAM, self.variant),)

    @property
    def words(self) -> tuple[str, ...]:
        return (f"beside {'what entered the layers' if self.variant is None else f'the stream after {self.variant}'}",)

    def check(self, sizes: HeadSizes) -> None:
        if self.norm is not None:
            self.norm.check(2 * sizes.width)

    def inputs(self, features: int) -> int:
        return 2 * features

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        return {"joined": JoinedModule(self, sizes.width)}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        return Tally() if self.norm is None else total({"joined": total({"norm": self.norm.cost(2 * sizes.width, shape.rows)})})

    def read(self, x_BTD: Tensor, call: AttentionCall) -> Tensor:
        return call.built("joined")(x_BTD, call.context)  # type: ignore[no-any-return]


class JoinedModule(nn.Module):
    """(B, T, D) -> (B, T, 2 D)."""

    def __init__(self, joined: Joined, width: int) -> None:
        super().__init__()
        self.variant = joined.variant
        self.norm = joined.norm.build(2 * width) if joined.norm else nn.Identity()

    def forward(self, x_BTD: Tensor, context: Context) -> Tensor:
        return self.norm(torch.cat([x_BTD, context.shared[self.variant, STREAM].to(x_BTD.dtype)], -1))  # type: ignore[no-any-return]
