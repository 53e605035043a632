"""Values by the delta rule: of each value what its key recalls already is taken, so that attention reads what is new."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from anyformer.operations import Contraction, Dimension, Shape, Tally, Weight, matrix, total
from anyformer.operations.elementwise import softmax
from anyformer.parts.attention.slots import AttentionCall, Remembered
from anyformer.parts.call.shared import MEMORY
from anyformer.parts.slot import HeadSizes, Way

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.call.context import Memory, Visible

MODULE = "delta_values"


class DeltaValues(Remembered):
    """u_t = v_t - beta_t * sum over visible s < t of softmax_s(k_t . k_s * scale) u_s, beta = x W + b: (B, T, K); u for v.

    DeltaFormer (Zhong et al. 2025, arXiv 2505.19488): what a delta rule does to a state, done to keys and values that are all
    kept. A value is corrected by what its own key reads of the values before it, so that one layer can follow what is
    exchanged (flash-linear-attention's function reads by the query). The u of a text are one triangular solution; the decode
    state holds u in the place of v, and is as large as before. Keys are compared as they are placed; terms, caps and sinks are
    of the scores of queries alone.
    """

    name: ClassVar[str] = "delta_values"
    rules_out: ClassVar[frozenset[Way]] = frozenset(
        {"bands", "chosen keys", "divided heads", "divided positions", "source", "two inputs", "outside", "layout", "latent"}
    )
    needs_own_keys: ClassVar[bool] = True
    initial: float = 1.0
    """The first value of b; at 0 nothing is taken."""

    @property
    def words(self) -> tuple[str, ...]:
        return ("values by the delta rule",)

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        from anyformer.parts.attention.delta_values_module import DeltaValuesModule

        return {MODULE: DeltaValuesModule(sizes.inputs, sizes.groups, sizes.scale)}

    def extended(
        self, memory: Memory, visible: Visible, bias: Tensor | None, call: AttentionCall
    ) -> tuple[Memory, Visible, Tensor | None]:
        memory = call.built(MODULE)(call.x, memory, visible, call.context, call.state)
        if call.context.variant is not None:
            # Layers that read these keys read these values.
            call.context.leave(MEMORY, memory)
        return memory, visible, bias

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        K, rows, pairs = sizes.groups, shape.rows, shape.rows * shape.keys * sizes.groups
        of_heads: Dimension = (("kv_heads", K),)
        rate = matrix("rate", sizes.inputs, K, rows, role="column", outputs_as=of_heads)
        rate += Tally({"rate.bias": Weight((K,), "column", self.initial, axes=(of_heads,))})
        earlier = shape.keys > shape.length
        # A solve is no matrix product, but the gradient of its triangle is one.
        within = 0 if shape.length == 1 else 2 * shape.rows * shape.length * K * sizes.value_width
        work = Tally(
            own_work={
                "key_scores": Contraction(2 * pairs * sizes.head_width),
                "recalled": Contraction(2 * pairs * sizes.value_width if earlier else 0),
                "solve": Contraction(0, no_gradient=-within),
                "key_softmax": softmax(pairs, pairs),
            }
        )
        return total({MODULE: rate + work})
