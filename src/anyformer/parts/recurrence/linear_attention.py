"""Linear attention: a kernel phi(q) . phi(k) in place of the softmax, so that keys and values add up to one state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import model_validator

from anyformer.describe import Positive
from anyformer.operations import Contraction, Elementwise, Limit, Shape, Tally, Watchables
from anyformer.operations.work import SUM_BYTES
from anyformer.parts.attention.grouped_heads import GroupedHeads
from anyformer.parts.attention.heads_sketch import heads_cell, rotary_cell
from anyformer.parts.attention.named_values import state_seen
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.recurrence.feature_map import FeatureMap
from anyformer.parts.recurrence.recurrent_heads import RecurrentHeads
from anyformer.parts.recurrence.recurrent_work import linear_flops, recurrent
from anyformer.parts.sketch import Cell, Sketch, biases, chain, fan, number, words
from anyformer.parts.sublayer import Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import RecurrentState
    from anyformer.parts.recurrence.linear_attention_module import LinearAttentionModule


class LinearAttention(GroupedHeads, RecurrentHeads):
    """o_t = phi(q_t) S_t / (phi(q_t) z_t + eps), S_t = sum over s <= t of phi(k_s) v_s^T, z_t = sum of phi(k_s).

    q: (B, T, H, E); k, v: (B, T, K, E); S: (M, E) and z: (M,) of each kv head, where phi has M features: time and memory of a
    token do not depend on the length of the past (Katharopoulos et al. 2020, arXiv 2006.16236; their C, D, M are our M, E, E).
    Sums are taken in fp32.
    """

    kind: Literal["linear_attention"] = "linear_attention"
    feature_map: FeatureMap
    causal: bool = True
    """Sums up to the position itself; otherwise over the whole row."""
    eps: Positive | None = None
    """Divide by the sum of the weights plus eps; None leaves the weighted sum as it is."""
    rotary: Rotary | None = None
    """Rotation of the features (RoFormer, arXiv 2104.09864, section 3.3)."""

    @model_validator(mode="after")
    def _makes_sense(self) -> LinearAttention:
        if self.eps is not None and self.feature_map.signed:
            raise ValueError(
                f"eps divides by the sum of phi(q) . phi(k), which vanishes for the signed features of "
                f"feature_map {self.feature_map.kind!r}: leave eps out"
            )
        if self.eps is not None and self.rotary is not None:
            raise ValueError(
                "rotary makes features negative, and the sum that eps divides by can vanish: leave one of them out"
            )
        return self

    def sketch(self, width: int) -> Sketch:
        K, E = self.groups, self.width_of_head(width)
        M, groups = self.feature_map.features(E), K if self.heads > K else 0
        query, key, value = (heads_cell(name, H, E, groups) for name, H in (("Q", self.heads), ("K", K), ("V", K)))
        mapped = Cell(f"φ: {words(self.feature_map)}", "pointwise")
        read = fan(chain(fan(query, key), mapped, rotary_cell(self.rotary)), value)
        over = "" if self.causal else ", of the whole row"
        state = Cell(f"state {K} × ({M} × {E}){over}", "memory")
        return Sketch("Linear attention", biases(self.bias, 4), chain(read, state, Cell(f"output {number(width)}")))

    def narrowed(self, width: int, ways: int) -> Self | None:
        if self.heads % ways or self.groups % ways:
            return None
        return self.but(heads=self.heads // ways, kv_heads=self.groups // ways, head_width=self.width_of_head(width))

    @property
    def traits(self) -> Traits:
        return Traits("linear", None if self.rotary is None else "RoPE")

    def check(self, width: int) -> None:
        features = self.feature_map.features(self.width_of_head(width))
        if self.rotary is not None:
            self.rotary.rotated(features)

    def build(self, width: int, plan: Plan, name: str) -> LinearAttentionModule:
        from anyformer.parts.recurrence.linear_attention_module import LinearAttentionModule

        return LinearAttentionModule(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        B, T, H, K = shape.batch, shape.length, self.heads, self.groups
        M, columns = self._sizes(width)
        vectors = B * T * (H + K)
        mapped, made = self.feature_map.flops(vectors, self.width_of_head(width)), vectors * M
        each = made * self.feature_map.each
        work = {"activation": Elementwise("activations", each, each, 2 * made)} if each else {}
        if self.causal:
            products = linear_flops(B, H, K, M, columns, T, plan.chunk)
        else:
            write, read = (2 * B * T * heads * M * columns for heads in (K, H))
            products = Tally(own_work={"write": Contraction(write), "read": Contraction(read)})
        return (
            self.projections(width, B * T)
            + products
            + Tally(
                own_work=work | ({"feature_map": Contraction(mapped, no_gradient=mapped)} if mapped else {}),
                own_state=recurrent(B * K * M * columns * SUM_BYTES, shape, K) if self.causal else None,
                own_limits=self.limits,
            )
        )

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Contracts that this attention breaks by its mathematics."""
        scaling = self.rotary.limits if self.rotary else ()
        if self.causal:
            return scaling
        return (
            Limit("causal", "a bidirectional linear attention sums over later positions too"),
            Limit("stepwise", "a bidirectional linear attention sums over tokens that are still to come"),
            Limit("chunked", "a bidirectional linear attention sums over the whole row, so it must be computed in one piece"),
            Limit("cached", "a bidirectional linear attention has no running sum to keep"),
            Limit("packed", "a bidirectional linear attention has one sum for the whole row"),
            *scaling,
        )

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState | None:
        """B * K * M * (E + 1 for the denominator) elements, for any capacity."""
        from anyformer.parts.call.recurrent_state import RecurrentState

        return RecurrentState.empty(batch, self.groups, 1, *self._sizes(width), device=device) if self.causal else None

    def state_seen(self, width: int) -> Watchables:
        M, columns = self._sizes(width)
        return state_seen("BKnME", K=self.groups, n=1, M=M, E=columns) if self.causal else {}

    def _sizes(self, width: int) -> tuple[int, int]:
        """M, and the columns of the state: E, and one more for the denominator."""
        E = self.width_of_head(width)
        return self.feature_map.features(E), E + (self.eps is not None)
