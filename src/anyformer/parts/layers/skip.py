"""Skip connections: a branch that adds an earlier stream, or a linear map of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.operations import Shape, Tally, matrix
from anyformer.parts.call.shared import STREAM, Read
from anyformer.parts.sketch import Sketch
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan

if TYPE_CHECKING:
    from anyformer.parts.layers.skip_module import SkipModule


class Skip(Sublayer):
    """y = x' or x' W, x' an earlier residual stream of the same tokens, (B, T, D): what entered the layers, or a layer left.

    W: (D, D). Without it the part has no weights: its branch's `gain` is the learned lambda, of one number with
    `Gain(per="branch", initial=0.0)`, or of D with `Gain(initial=0.0)`. With what entered the layers, in every block: the
    embedding skips of modded-nanogpt (Jordan et al. 2024). With the stream behind an earlier variant, in the second half of
    the layers: the skips of a U-Net (Ronneberger et al. 2015, arXiv 1505.04597), each pair of layers with a variant of its own.
    """

    reads_stream: ClassVar[bool] = False
    kind: Literal["skip"] = "skip"
    variant: str | None = None
    """The variant whose latest layer before left the stream; None: what entered the layers."""
    detached: bool = False
    """Whether it is a constant: no gradient flows back to it (HRM's first cycles, arXiv 2506.21734)."""
    projected: bool = False
    """Whether the stream is multiplied by W (the linear map behind the shared block of Zamba, arXiv 2405.16712)."""

    def sketch(self, width: int) -> Sketch:
        read = "what entered the layers" if self.variant is None else f"the stream after {self.variant}"
        facts = {"through a linear map": self.projected, "without a gradient": self.detached}
        return Sketch("Skip", (read, *(fact for fact, holds in facts.items() if holds)))

    @property
    def reads(self) -> tuple[Read, ...]:
        return (Read(STREAM, self.variant, constant=self.detached),)

    def build(self, width: int, plan: Plan, name: str) -> SkipModule:
        from anyformer.parts.layers.skip_module import SkipModule

        return SkipModule(self, width)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        if not self.projected:
            return Tally()
        return matrix("projection", width, width, shape.rows, role="column", fill="residual")
