"""A norm with small networks of each language behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from anyformer.describe import Choice, Count
from anyformer.operations import Operation, Product, Tally, Weight, total
from anyformer.operations.elementwise import added
from anyformer.parts.norms.layer_norm import LayerNorm
from anyformer.parts.norms.norm import GainKind, Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.sketch import Sketch, number

if TYPE_CHECKING:
    from anyformer.parts.norms.adapted_norm_module import AdaptedNormModule

Code = Annotated[str, Field(pattern=r"^\w+$")]


class AdaptedNorm(Norm):
    """y = norm(n + act(n W_down + b_down) W_up + b_up), n = norm(x): (..., D), the W and b of one language.

    W_down (languages, P, D), W_up (languages, D, P), biases (languages, P) and (languages, D), stacked. All languages share
    the norm, which stands before the adapter and behind it: X-MOD (Pfeiffer et al. 2022, arXiv 2205.06266, section 3), where
    it takes the place of the norm behind a network. One language is spoken at a time; the weights of the others stay. Dropout
    behind the adapter, which X-MOD trains with, is not described.
    """

    gain: ClassVar[GainKind] = "none"
    bias: ClassVar[bool] = False
    kind: Literal["adapted_norm"] = "adapted_norm"
    norm: Norm = LayerNorm()
    before: Norm | None = None
    """What the adapter reads: n = before(x), with weights of its own; None: the shared norm."""
    rank: Count
    """Features in the middle of an adapter (P)."""
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
        count, rank = len(self.languages), self.rank
        shapes = {"down": (rank, width), "up": (width, rank)}
        weights = {name: Weight((count, *shape), "replicate", "matrix", 1) for name, shape in shapes.items()}
        weights |= {f"{name}_bias": Weight((count, shape[0]), "replicate", "zeros", 1) for name, shape in shapes.items()}
        work: dict[str, Operation] = {
            "down": Product(vectors, width, rank, "replicate"),
            "up": Product(vectors, rank, width, "replicate"),
            "residual": added(vectors * width),
        }
        inner = {"activation": ACTIVATIONS[self.activation].cost(rank, vectors)}
        inner |= {"norm": self.norm.cost(width, vectors if self.before is not None else 2 * vectors)}
        inner |= {} if self.before is None else {"before": self.before.cost(width, vectors)}
        return Tally(weights, work) + total(inner)
