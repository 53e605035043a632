"""Linear attention: a kernel phi(q) . phi(k) in place of the softmax, so that keys and values add up to one state."""

from __future__ import annotations

from typing import Literal, Self

import torch
from pydantic import model_validator
from torch import Tensor

from anyformer.describe import Count, Digested, Positive
from anyformer.operations import Contraction, Limit, Shape, Tally
from anyformer.parts.attention.heads_sketch import heads_cell, rotary_cell
from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import SUM_BYTES, RecurrentState
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.recurrence.feature_map import FeatureMap
from anyformer.parts.recurrence.recurrence import exact, exactly, linear_flops, linear_recurrence, recurrent
from anyformer.parts.recurrence.recurrent_heads import (
    RecurrentHeads,
    RecurrentHeadsModule,
    heads_first,
    split_heads,
    time_first,
)
from anyformer.parts.sketch import Cell, Sketch, biases, chain, fan, number, words
from anyformer.parts.sublayer import Traits
from anyformer.plan import Plan


class LinearAttention(RecurrentHeads):
    """o_t = phi(q_t) S_t / (phi(q_t) z_t + eps), S_t = sum over s <= t of phi(k_s) v_s^T, z_t = sum of phi(k_s).

    q: (B, T, H, E); k, v: (B, T, K, E); S: (M, E) and z: (M,) of each kv head, where phi has M features: time and memory of a
    token do not depend on the length of the past (Katharopoulos et al. 2020, arXiv 2006.16236; their C, D, M are our M, E, E).
    Sums are taken in fp32.
    """

    kind: Literal["linear_attention"] = "linear_attention"
    kv_heads: Count | None = None
    """K, heads of keys and values, a divisor of H; H by default."""
    feature_map: FeatureMap
    causal: bool = True
    """Sums up to the position itself; otherwise over the whole row."""
    eps: Positive | None = None
    """Divide by the sum of the weights plus eps; None leaves the weighted sum as it is."""
    rotary: Rotary | None = None
    """Rotation of the features (RoFormer, arXiv 2104.09864, section 3.3)."""

    @model_validator(mode="after")
    def _makes_sense(self) -> LinearAttention:
        if self.heads % self.groups:
            raise ValueError(f"kv_heads must divide heads, got kv_heads = {self.groups} and heads = {self.heads}")
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

    @property
    def groups(self) -> int:
        """K."""
        return self.heads if self.kv_heads is None else self.kv_heads

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
        return LinearAttentionModule(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        B, T, H, K = shape.batch, shape.length, self.heads, self.groups
        M, columns = self._sizes(width)
        mapped = self.feature_map.flops(B * T * (H + K), self.width_of_head(width))
        if self.causal:
            products = linear_flops(B, H, K, M, columns, T, plan.chunk)
        else:
            write, read = (2 * B * T * heads * M * columns for heads in (K, H))
            products = Tally(own_work={"write": Contraction(write), "read": Contraction(read)})
        return (
            self.projections(width, B * T)
            + products
            + Tally(
                own_work={"feature_map": Contraction(mapped, no_gradient=mapped)} if mapped else {},
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
        return RecurrentState.empty(batch, self.groups, 1, *self._sizes(width), device=device) if self.causal else None

    def _sizes(self, width: int) -> tuple[int, int]:
        """M, and the columns of the state: E, and one more for the denominator."""
        E = self.width_of_head(width)
        return self.feature_map.features(E), E + (self.eps is not None)


class LinearAttentionModule(RecurrentHeadsModule):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, attention: LinearAttention, width: int, plan: Plan) -> None:
        super().__init__(attention, width)
        self.attention, self.chunk = attention, plan.chunk
        self.directions = attention.feature_map.directions(self.head_width)
        self.rotary = Digested.of(attention.rotary) if attention.rotary else None

    def extra_repr(self) -> str:
        a = self.attention
        return f"heads={a.heads}, kv_heads={a.groups}, head_width={self.head_width}, feature_map={a.feature_map.kind}"

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        return self.output(self.recur(self.query(x_BTD), self.key(x_BTD), self.value(x_BTD), context, state))  # type: ignore[no-any-return]

    def recur(self, query: Tensor, key: Tensor, value: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        """The mixed heads side by side, (B, T, H * E), of queries, keys and values, (B, T, heads * E)."""
        a = self.attention
        with exactly(query):
            q, k, v = (split_heads(exact(y), y.shape[-1] // self.head_width) for y in (query, key, value))
            q, k = heads_first(self._mapped(q, context), a.groups), heads_first(self._mapped(k, context), a.groups)
            v = heads_first(v, a.groups)
            if context.valid is not None:
                k = k.masked_fill(~context.valid[:, None, None, :, None], 0)
            if a.eps is not None:
                # A column of ones adds up to the denominator.
                v = torch.cat([v, torch.ones_like(v[..., :1])], -1)
            mixed = self._mixed(q, k, v, context, state)
            if a.eps is not None:
                mixed = mixed[..., :-1] / (mixed[..., -1:] + a.eps)
            mixed_BTHE = time_first(mixed)
        return mixed_BTHE.flatten(2).to(query.dtype)

    def _mapped(self, x_BTHE: Tensor, context: Context) -> Tensor:
        """phi(x), rotated if positions are: (B, T, H, M)."""
        return context.rotated(self.attention.feature_map.apply(x_BTHE, self.directions), self.rotary)

    def _mixed(self, q: Tensor, k: Tensor, v: Tensor, context: Context, state: RecurrentState | None) -> Tensor:
        if not self.attention.causal:
            return q @ (k.mT @ v)
        past = None if state is None else state.sums.to(q.dtype)
        mixed, sums = linear_recurrence(q, k, v, None, past, chunk=self.chunk, segments=context.segments)
        if state is not None:
            state.sums.copy_(sums)
        return mixed
