"""The forgetting gate of attention: each token says how much of what stands before it the later ones still see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from anyformer.operations import Dimension, Shape, Tally, Weight, matrix, total
from anyformer.operations.elementwise import activated
from anyformer.parts.attention.slots import AttentionCall, Term
from anyformer.parts.slot import HeadSizes, Way

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.call.context import Memory


GATES = "gates"
"""The projection of the stream to one gate per head."""


class ForgettingGate(Term):
    """s_ij = q_i . k_j * scale + sum over l in (j, i] of log sigmoid(f_l), f = x W_f + b, one per head: (B, T, H).

    The Forgetting Transformer (FoX, Lin et al. 2025, arXiv 2503.02130): ALiBi whose slopes the data give, so that positions
    need no other sign. To a later key, in attention that looks ahead, the sum is over l in (i, j]. The decode state holds the
    sum up to each position beside its key: H numbers in fp32.
    """

    name: ClassVar[str] = "forget"
    order: ClassVar[int] = 1
    rules_out: ClassVar[frozenset[Way]] = Term.rules_out | {"divided positions"}
    needs_own_keys: ClassVar[bool] = True
    every_position: ClassVar[bool] = True
    initial: float = 0.0
    """The first value of b. At 0 a token halves what stands before it; a gate of 10 forgets next to nothing."""

    @property
    def words(self) -> tuple[str, ...]:
        return ("a forgetting gate per head",)

    @property
    def position(self) -> str:
        return "forgetting"

    def beside(self, sizes: HeadSizes) -> int:
        return sizes.heads

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        from anyformer.parts.attention.forgetting_module import ForgettingGateModule

        return {"forget": ForgettingGateModule(sizes.inputs, sizes.heads)}

    def term(self, q_BHTE: Tensor, memory: Memory, call: AttentionCall) -> Tensor:
        from anyformer.parts.call.annotated_state import AnnotatedState

        assert call.state is None or isinstance(call.state, AnnotatedState), "made by the description"
        return call.built("forget")(call.x, call.context, call.state)  # type: ignore[no-any-return]

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        heads, rows = sizes.heads, shape.rows
        of_heads: Dimension = (("heads", heads),)
        bias = Weight((heads,), "column", self.initial, axes=(of_heads,))
        gates = matrix(GATES, sizes.inputs, heads, rows, role="column", outputs_as=of_heads)
        return total({"forget": gates + Tally({f"{GATES}.bias": bias}, {"log_sigmoid": activated(rows * heads)})})
