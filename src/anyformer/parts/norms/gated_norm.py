"""A norm whose features a gate of low rank weighs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from anyformer.describe import Choice, Count
from anyformer.operations import Tally, matrix, total
from anyformer.operations.elementwise import activated
from anyformer.parts.norms.layer_norm import RMSNorm
from anyformer.parts.norms.norm import GainKind, Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.sketch import Sketch, number

if TYPE_CHECKING:
    from anyformer.parts.norms.gated_norm_module import GatedNormModule


class GatedNorm(Norm):
    """y = n * sigmoid(act(n W_down) W_up), n = norm(x): (..., D), W_down (D, P), W_up (P, D) (arXiv 2601.22966, GatedNorm).

    The gate shrinks features that would otherwise rescale all the others. In the issues of marin (marin-community/marin, 4026)
    a model without it is worse, and act hardly matters (5302: ReLU is 1 to 2% ahead of SiLU). It starts near n / 2, since the
    sigmoid of what is near 0 is near a half.
    """

    gain: ClassVar[GainKind] = "none"
    bias: ClassVar[bool] = False
    kind: Literal["gated_norm"] = "gated_norm"
    norm: Norm = RMSNorm()
    """What the gate reads and weighs."""
    rank: Count = 16
    """Features in the middle, P."""
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] = "silu"

    def sketch(self, width: int) -> Sketch:
        return Sketch(f"Gated {type(self.norm).__name__}", (f"a gate of rank {number(self.rank)}",))

    def check(self, width: int) -> None:
        self.norm.check(width)

    def build(self, width: int) -> GatedNormModule:
        from anyformer.parts.norms.gated_norm_module import GatedNormModule

        return GatedNormModule(self, width)

    def cost(self, width: int, vectors: int) -> Tally:
        parts = matrix("down", width, self.rank, vectors, role="replicate")
        parts += matrix("up", self.rank, width, vectors, role="replicate")
        work = Tally(own_work={"gate": activated(width * vectors, gated=True)})
        inner = {"norm": self.norm.cost(width, vectors), "activation": ACTIVATIONS[self.activation].cost(self.rank, vectors)}
        return parts + work + total(inner)
