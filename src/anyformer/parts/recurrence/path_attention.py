"""PaTH attention: positions by what the tokens between a query and a key do to it, one reflection after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from anyformer.describe import Count, Positive
from anyformer.operations import Contraction, Operation, Pairs, Shape, StateBytes, Tally, Watchables, matrix, total, value
from anyformer.operations.elementwise import softmax
from anyformer.operations.work import SUM_BYTES
from anyformer.parts.attention.grouped_heads import GroupedHeads
from anyformer.parts.attention.heads_sketch import heads_cell
from anyformer.parts.attention.named_values import put_out_seen
from anyformer.parts.masks.simple import Causal
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.recurrence.convolved_projections import convolution_cell
from anyformer.parts.recurrence.recurrent_heads import SizedHeads
from anyformer.parts.recurrence.recurrent_work import cut
from anyformer.parts.recurrence.short_convolution import ShortConvolution
from anyformer.parts.sketch import Cell, Sketch, chain, fan, number
from anyformer.parts.sublayer import Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.recurrence.path_attention_module import PathAttentionModule
    from anyformer.parts.recurrence.path_state import PathState


class PathAttention(GroupedHeads, SizedHeads):
    """s_ts = scale * q_t^T H_t H_{t-1} ... H_{s+1} k_s, H_u = I - beta_u w_u w_u^T, causal; softmax(s) v, then W_o.

    q: (B, T, H, E); k, v, w: (B, T, K, E), w divided by its length; beta = 2 sigmoid(x W_beta + b): (B, T, K). In the place of
    a rotation by the distance stands the product of what every token between does, a reflection at beta = 2 and a projection
    at 1: positions that the text decides, by which a layer tracks states as a delta rule does (PaTH, Yang et al. 2025, arXiv
    2505.16381). w = x W_down W through `rank` features, then a short convolution. Rows of scores are cut into chunks as for a
    delta rule and written out; the decode state holds each key as it is seen from the latest position, in fp32, so that every
    step turns them all.
    """

    kind: Literal["path_attention"] = "path_attention"
    rank: Count | None = None
    """Features that directions pass through (the paper: 32); None projects directly."""
    convolution: ShortConvolution | None = None
    """Convolution of the directions (the paper: kernel 3, silu)."""
    length_eps: Positive = 1e-6
    """Added to the squared lengths that directions are divided by."""
    scale: Positive | None = None
    """Factor of the scores; E^-0.5 by default."""
    qk_norm: Norm | None = None
    """Norm of each head of queries and of keys, one gain each."""

    def scale_of(self, width: int) -> float:
        """The factor of the scores, as a number."""
        return self.width_of_head(width) ** -0.5 if self.scale is None else self.scale

    def resolved(self, width: int) -> Self:
        return super().resolved(width).but(kv_heads=self.groups, scale=self.scale_of(width))

    def sketch(self, width: int) -> Sketch:
        H, K, E = self.heads, self.groups, self.width_of_head(width)
        norm = None if self.qk_norm is None else Cell("QK-norm", "norm")
        read = fan(chain(heads_cell("Q", H, E), norm), chain(heads_cell("K", K, E), norm), heads_cell("V", K, E))
        turns = fan(read, chain(heads_cell("w", K, E), convolution_cell(self.convolution)), Cell("β", "position"))
        scores = Cell("softmax over keys, each reflected by the tokens since", "mix")
        return Sketch("PaTH attention", flow=chain(turns, scores, Cell(f"output {number(width)}")))

    @property
    def traits(self) -> Traits:
        mixing = "MHA" if self.groups == self.heads else "MQA" if self.groups == 1 else "GQA"
        return Traits(mixing, "PaTH", stability=() if self.qk_norm is None else ("QK-norm",))

    def build(self, width: int, plan: Plan, name: str) -> PathAttentionModule:
        from anyformer.parts.recurrence.path_attention_module import PathAttentionModule

        return PathAttentionModule(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        B, rows, H, K, E = shape.batch, shape.rows, self.heads, self.groups, self.width_of_head(width)
        parts = matrix("query", width, H * E, rows, role="column")
        for name in ("key", "value"):
            parts += matrix(name, width, K * E, rows, role="column")
        if self.rank is not None:
            parts += matrix("direction_down", width, self.rank, rows, role="replicate")
        parts += matrix("direction", self.rank or width, K * E, rows, role="column")
        parts += matrix("beta", width, K, rows, role="column", bias=True)
        parts += matrix("output", H * E, width, rows, role="row", fill="residual")
        inner = {"beta_activation": ACTIVATIONS["sigmoid"].cost(K, rows)}
        if self.convolution is not None:
            inner["direction_convolution"] = self.convolution.cost(K * E, rows)
        if self.qk_norm is not None:
            inner |= {"query_norm": self.qk_norm.cost(E, rows * H), "key_norm": self.qk_norm.cost(E, rows * K)}
        pairs, exact = shape.length * shape.keys, Causal().pairs(shape)
        weighing: dict[str, Operation] = {
            "softmax": softmax(B * H * pairs, B * H * exact),
            "mix": Pairs(B, H, E, pairs, exact, shape.length, "keys"),
        }
        work = Tally(own_work=weighing, own_state=self._state_bytes(E, shape, plan))
        return parts + total(inner) + work + self._products(E, shape, plan.chunk)

    def _state_bytes(self, features: int, shape: Shape, plan: Plan) -> StateBytes:
        numbers, of_key = shape.batch * self.groups * features, SUM_BYTES + plan.activation_bytes
        recent = self.convolution.state_elements(self.groups * features, shape.batch) if self.convolution else 0
        recent *= plan.activation_bytes
        held = numbers * shape.cache_length * of_key + recent
        if shape.length > 1:
            return StateBytes(held, 0, held, self.groups)
        return StateBytes(held, numbers * shape.keys * of_key + recent, numbers * shape.keys * SUM_BYTES, self.groups)

    def _products(self, features: int, shape: Shape, chunk: int) -> Tally:
        """FLOPs of `path_scores`; with earlier positions those of `path_step` or `path_chunk`, without a backward pass."""
        B, T, P, H, K, E = shape.batch, shape.length, shape.past, self.heads, self.groups, features
        if T == 1:
            turned = 2 * B * K * shape.keys * E if P else 0
            return Tally(own_work={"scores": Contraction(2 * B * H * shape.keys * E), "turned": Contraction(turned)})
        size, chunks = cut(T, chunk, channels=False)
        rows, once, through = B * chunks * size, 2 * B * chunks * size * size * E, 2 * B * chunks * size * E * E
        scores, turned, solved = 2 * (H + K) * once + 2 * H * rows * size * size, 0, size
        if chunks > 1 or P:
            # Queries as the chunk begins, keys as it ends, and, from two chunks on, what a chunk between them does.
            scores, solved = scores + (H + K) * once, size + E
            turned += K * through if chunks > 2 or P else 0
        later = chunks * (chunks - 1) // 2
        scores += 2 * B * H * size * size * E * later
        turned += 2 * B * H * size * E * E * (later if P else (chunks - 1) * (chunks - 2) // 2)
        if P:
            scores += 2 * B * H * T * shape.keys * E
            turned += 2 * B * K * E * E * (shape.keys * chunks + size * later)
        work = {"scores": Contraction(scores), "turned": Contraction(turned)}
        # A solve is no matrix product, but the gradient of its triangle is one.
        return Tally(own_work={**work, "solve": Contraction(0, no_gradient=-2 * rows * K * size * solved)})

    def watchable(self, width: int) -> Watchables:
        H, K, E = self.heads, self.groups, self.width_of_head(width)
        keys = value("BTKE", "keys", K=K, E=E)
        return {
            "query": value("BTHE", "queries", H=H, E=E),
            "key": keys,
            "value": value("BTKE", "values", K=K, E=E),
            "direction": value("BTKE", "directions of the reflections, before they are divided by their lengths", K=K, E=E),
            "beta": value("BTK", "how far a token reflects", K=K),
            "mixed": value("BTHE", "the values that each head mixed", H=H, E=E),
        } | put_out_seen((H, E), width)

    def state(self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device) -> PathState:
        """Keys in fp32 and values of every position, B * K * C * E each, and the latest inputs of the convolution."""
        from anyformer.parts.recurrence.path_state import PathState

        features = self.groups * self.width_of_head(width)
        recent = None if self.convolution is None else self.convolution.state(features, batch, dtype, device)
        return PathState.empty(batch, self.groups, capacity, features // self.groups, dtype, device, recent)
