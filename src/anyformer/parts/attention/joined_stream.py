"""An earlier stream beside the one that attention reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from anyformer.operations import Shape, Tally, total
from anyformer.parts.attention.slots import Adjustment, AttentionCall
from anyformer.parts.call.shared import STREAM, Read
from anyformer.parts.norms.norm import Norm
from anyformer.parts.slot import HeadSizes, Way

if TYPE_CHECKING:
    from torch import Tensor


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
        from anyformer.parts.attention.joined_stream_module import JoinedModule

        return {"joined": JoinedModule(self, sizes.width)}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        return Tally() if self.norm is None else total({"joined": total({"norm": self.norm.cost(2 * sizes.width, shape.rows)})})

    def read(self, x_BTD: Tensor, call: AttentionCall) -> Tensor:
        return call.built("joined")(x_BTD, call.context)  # type: ignore[no-any-return]
