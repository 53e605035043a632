"""A bias of scores that the value of each key gives: a learned, dynamic mask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from anyformer.operations import Shape, Tally, Weight, matrix, total
from anyformer.operations.elementwise import activated
from anyformer.parts.attention.slots import AttentionCall, Term
from anyformer.parts.slot import HeadSizes, Way

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.call.context import Memory


class ValueBias(Term):
    """s_ij = q_i . k_j * scale + exp(a * softplus(v_j W)), one per key head: v_j (K * U), its values side by side.

    Dynamic mask attention (Shi et al. 2025, arXiv 2508.02124; Doge) without the choice of keys: a position says by its value
    how much it is seen, whoever asks. a (K) starts at 0, where every key gets the same. The decode state holds the K numbers of
    each position beside its key, in fp32, so that a mask has no window.
    """

    name: ClassVar[str] = "value_bias"
    rules_out: ClassVar[frozenset[Way]] = Term.rules_out | {"divided positions", "divided heads", "pairs of heads"}
    needs_own_keys: ClassVar[bool] = True
    every_position: ClassVar[bool] = True
    bias: bool = False
    """Whether the projection of the values adds a bias."""

    @property
    def words(self) -> tuple[str, ...]:
        return ("a bias of every key by its value",)

    def beside(self, sizes: HeadSizes) -> int:
        return sizes.groups

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        from anyformer.parts.attention.value_bias_module import ValueBiasModule

        return {"value_bias": ValueBiasModule(self, sizes)}

    def term(self, q_BHTE: Tensor, memory: Memory, call: AttentionCall) -> Tensor:
        from anyformer.parts.call.annotated_state import AnnotatedState

        assert call.state is None or isinstance(call.state, AnnotatedState), "made by the description"
        return call.built("value_bias")(call.values, call.context, call.state)  # type: ignore[no-any-return]

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        groups = sizes.groups
        made = matrix("values", groups * sizes.value_width, groups, key_rows, role="replicate", bias=self.bias)
        own = Tally({"rate": Weight((groups,), "replicate", "zeros")}, {"bounded": activated(2 * key_rows * groups)})
        return total({"value_bias": made + own})
