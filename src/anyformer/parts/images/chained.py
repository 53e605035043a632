"""Two projectors, one behind the other (Llama 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import model_validator

from anyformer.describe import Choice, Count
from anyformer.operations import Tally, total
from anyformer.parts.images.projector import Projector
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.sketch import Sketch, number

if TYPE_CHECKING:
    from anyformer.parts.images.chained_module import ChainedModule


class ChainedProjector(Projector):
    """y = then(act(first(x))), with `between` features between them.

    The adapter of Llama 4's tower and its matrix to the text (Meta 2025), that of HyperCLOVA X SEED (NAVER 2025).
    """

    kind: Literal["chained"] = "chained"
    first: Projector
    between: Count
    """Features that first gives, and then reads."""
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] | None = None
    then: Projector

    @model_validator(mode="after")
    def _once(self) -> ChainedProjector:
        if self.then.square > 1:
            raise ValueError(f"then: merges squares of {self.then.square} patches, and first leaves none: let first merge them")
        return self

    @property
    def square(self) -> int:
        return self.first.square

    def sketch(self, width: int) -> Sketch:
        first, then = self.first.sketch(self.between), self.then.sketch(width)
        act = [] if self.activation is None else [ACTIVATIONS[self.activation].title]
        return Sketch(first.title, (*first.facts, *act, *(then.facts or (f"→ {number(width)}",))))

    def tokens(self, positions: int) -> int:
        return self.then.tokens(self.first.tokens(positions))

    def build(self, inputs: int, width: int) -> ChainedModule:
        from anyformer.parts.images.chained_module import ChainedModule

        return ChainedModule(self, inputs, width)

    def cost(self, inputs: int, width: int, images: int, positions: int) -> Tally:
        tokens = self.first.tokens(positions)
        parts = {
            "first": self.first.cost(inputs, self.between, images, positions),
            "then": self.then.cost(self.between, width, images, tokens),
        }
        if self.activation is not None:
            parts["activation"] = ACTIVATIONS[self.activation].cost(self.between, images * tokens)
        return total(parts)
