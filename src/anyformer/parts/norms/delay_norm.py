"""A norm whose gains are a function of a fixed delay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from anyformer.describe import Choice, Count, Moderate, NotNegative
from anyformer.operations import Tally, matrix, total
from anyformer.operations.elementwise import gated
from anyformer.parts.norms.layer_norm import RMSNorm
from anyformer.parts.norms.norm import GainKind, Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.sketch import Sketch, number

if TYPE_CHECKING:
    from anyformer.parts.norms.delay_norm_module import DelayNormModule


class DelayNorm(Norm):
    """y = norm(x) * (1 + act(s W_down) W_up): (..., D), W_down (D, P), W_up (P, D), s (D,) a function of the delay d alone.

    s: the cosines, then the sines, of d * theta^(-2 i / D), i < D / 2. A decoder that hears a sound while it writes is told
    so how many tokens it may wait (Voxtral Realtime, Mistral AI 2026; transformers 5.23, `voxtral_realtime`). One set of
    weights serves every delay; the delay is a number of the description.
    """

    gain: ClassVar[GainKind] = "none"
    bias: ClassVar[bool] = False
    kind: Literal["delay_norm"] = "delay_norm"
    norm: Norm = RMSNorm()
    """What the gains multiply."""
    rank: Count = 32
    """Features in the middle (P)."""
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] = "gelu"
    delay: NotNegative = 6
    """d, in tokens."""
    theta: Moderate = 10_000.0
    """Ratio of the fastest wave to the slowest."""

    def sketch(self, width: int) -> Sketch:
        facts = (f"gains of rank {number(self.rank)}", f"a delay of {self.delay:g} tokens")
        return Sketch(f"{type(self.norm).__name__} by delay", facts)

    def check(self, width: int) -> None:
        self.norm.check(width)
        if width % 2:
            raise ValueError(f"a norm by delay has a cosine and a sine of each wave, so an even width, got {width}")

    def build(self, width: int) -> DelayNormModule:
        from anyformer.parts.norms.delay_norm_module import DelayNormModule

        return DelayNormModule(self, width)

    def cost(self, width: int, vectors: int) -> Tally:
        """The gains are worked out once a call, whatever the number of vectors."""
        once = int(vectors > 0)
        parts = matrix("down", width, self.rank, once, role="replicate", constant=True)
        parts += matrix("up", self.rank, width, once, role="replicate")
        inner = {"norm": self.norm.cost(width, vectors), "activation": ACTIVATIONS[self.activation].cost(self.rank, once)}
        return parts + Tally(own_work={"gains": gated(width * vectors)}) + total(inner)
