"""A norm with small networks of each language behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from anyformer.describe import Choice, Count
from anyformer.operations import Tally, matrix, total
from anyformer.operations.elementwise import added
from anyformer.parts.norms.layer_norm import LayerNorm
from anyformer.parts.norms.norm import GainKind, Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.sketch import Sketch, number

if TYPE_CHECKING:
    from anyformer.parts.norms.adapted_norm_module import AdaptedNormModule

Code = Annotated[str, Field(pattern=r"^\w+$")]


class AdaptedNorm(Norm):
    """y = norm(n + act(n W_down + b_down) W_up + b_up), n = norm(x): (..., D), W_down (D, P), W_up (P, D).

    Every language has an adapter of its own, and all share the norm, which stands before and behind it: X-MOD (Pfeiffer et al.
    2022, arXiv 2205.06266, section 3), where it takes the place of the norm behind a network. One language is spoken at a time;
    the weights of the others stay. Dropout behind the adapter, which X-MOD trains with, is not described.
    """

    gain: ClassVar[GainKind] = "none"
    bias: ClassVar[bool] = False
    kind: Literal["adapted_norm"] = "adapted_norm"
    norm: Norm = LayerNorm()
    before: Norm | None = None
    """What the adapter reads: n = before(x), with weights of its own; None: the shared norm."""
    rank: Count
    """P, features in the middle of an adapter."""
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] = "gelu"
    languages: Annotated[tuple[Code, ...], Field(min_length=1)] = ("en_XX",)
    """Whose adapters there are, by their codes."""
    language: Code = "en_XX"
    """The one that is spoken."""

    @model_validator(mode="after")
    def _speaks(self) -> AdaptedNorm:
        if len(set(self.languages)) < len(self.languages):
            raise ValueError(f"languages name one twice: {', '.join(self.languages)}")
        if self.language not in self.languages:
            raise ValueError(f"language = {self.language} is none of the languages {', '.join(self.languages)}")
        return self

    def sketch(self, width: int) -> Sketch:
        facts = (f"an adapter of {number(self.rank)}", f"{self.language} of {len(self.languages)} languages")
        return Sketch(f"Adapted {type(self.norm).__name__}", facts)

    def check(self, width: int) -> None:
        self.norm.check(width)
        if self.before is not None:
            self.before.check(width)

    def build(self, width: int) -> AdaptedNormModule:
        from anyformer.parts.norms.adapted_norm_module import AdaptedNormModule

        return AdaptedNormModule(self, width)

    def cost(self, width: int, vectors: int) -> Tally:
        adapters = {f"adapters.{name}": self._adapter(width, vectors * (name == self.language)) for name in self.languages}
        norm, shared = self.norm.cost(width, vectors), self.before is None
        inner = {"norm": self.norm.cost(width, 2 * vectors) if shared else norm, **adapters}
        inner |= {"before": self.before.cost(width, vectors)} if self.before is not None else {}
        return total(inner) + Tally(own_work={"residual": added(vectors * width)})

    def _adapter(self, width: int, vectors: int) -> Tally:
        down = matrix("down", width, self.rank, vectors, role="replicate", bias=True)
        up = matrix("up", self.rank, width, vectors, role="replicate", bias=True)
        return down + up + total({"activation": ACTIVATIONS[self.activation].cost(self.rank, vectors)})
