"""Inputs of their own for queries, keys and values, of the depth of the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.operations import Shape, Tally, total
from anyformer.parts.attention.slots import Adjustment, AttentionCall
from anyformer.parts.norms.norm import Norm
from anyformer.parts.slot import HeadSizes, Side, Way
from anyformer.parts.sublayer import Inputs

if TYPE_CHECKING:
    from torch import Tensor


SIDES: tuple[Side, ...] = ("query", "key", "value")


class SideInputs(Adjustment):
    """Queries, keys and values each normed, of inputs of their own, in the place of the branch's `norm_before`.

    `depth = "read"`: each is a sum of the values of attention residuals, by a query of its own (Inkling 2's full layers);
    `gated`: one sum for all, with a message for each in later passes of a loop (`LoopedResiduals`). Inkling 2, Thinking
    Machines 2026; transformers 5.23 and 5.24. The streams have the queries and gates.
    """

    name: ClassVar[str] = "side_inputs"
    order: ClassVar[int] = -5
    rules_out: ClassVar[frozenset[Way]] = frozenset(
        {"divided heads", "divided positions", "source", "two inputs", "outside", "layout", "latent"}
    )
    needs_own_keys: ClassVar[bool] = True
    norm: Norm
    depth: Literal["read", "gated"] = "read"
    """What they read of the depth of the model."""
    norms: Literal["each", "shared"] = "each"
    """A norm for each side, or one for all."""

    @property
    def words(self) -> tuple[str, ...]:
        return ("queries, keys and values of inputs of their own",)

    @property
    def inputs_of_depth(self) -> Inputs:
        return self.depth

    def _called(self, side: Side) -> str:
        return f"{side}_input_norm" if self.norms == "each" else "input_norm"

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        return {self._called(side): self.norm.build(sizes.width) for side in SIDES}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        if self.norms == "each":
            return total({self._called(side): self.norm.cost(sizes.width, shape.rows) for side in SIDES})
        return total({"input_norm": self.norm.cost(sizes.width, len(SIDES) * shape.rows)})

    def read(self, x_BTD: Tensor, call: AttentionCall) -> Tensor:
        return call.built(self._called("query"))(x_BTD)  # type: ignore[no-any-return]

    def read_by(self, side: Side, x_BTD: Tensor, call: AttentionCall) -> Tensor:
        sides = call.context.sides
        given = call.stream if sides is None else sides[SIDES.index(side) - 1]
        return call.built(self._called(side))(given)  # type: ignore[no-any-return]
