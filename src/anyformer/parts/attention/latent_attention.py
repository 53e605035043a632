"""Multi-head latent attention: keys and values of all heads from one small latent vector per token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from anyformer.operations import Shape, StateBytes, Tally, Weight, matrix, total
from anyformer.operations.elementwise import rotated
from anyformer.parts.attention.heads_sketch import gated, heads_cell, rotary_cell
from anyformer.parts.attention.latent_heads import LatentHeads
from anyformer.parts.attention.pair_work import pair_work
from anyformer.parts.layout import LatentLayout, WeightLayout
from anyformer.parts.sketch import Cell, Sketch, biases, chain, fan, number, words
from anyformer.plan import Plan

if TYPE_CHECKING:
    from torch import nn


class LatentAttention(LatentHeads):
    """Keys and values through a latent c = norm(x W_dkv), (B, S, P) (DeepSeek-V2, arXiv 2405.04434, section 2.1).

        q = [c_q W_uq, rotate(c_q W_qr)] per head, c_q = norm(x W_dq)
        k = [c W_uk per head, rotate(x W_kr) for all heads], v = c W_uv per head
        softmax(q k^T * scale where mask) v W_o, scale = E^-0.5

    The decode state is c and the rotated key, P + R numbers per token. A step of one token does not expand them: q W_uk^T is
    multiplied with c directly, and W_uv is applied after mixing (the paper's absorption). The paper's d_c is P = kv_rank, d'_c
    q_rank, d_h E - R = nope_width, d_h^R R = rope_width.
    """

    kind: Literal["latent_attention"] = "latent_attention"

    def sketch(self, width: int) -> Sketch:
        H, norm = self.heads, None if self.norm is None else Cell("norm", "norm")
        small = None if self.q_rank is None else chain(Cell(f"latent {number(self.q_rank)}"), norm)
        query = chain(small, Cell(f"Q {H} × ({self.nope_width} + {self.rope_width})", count=H))
        shared = chain(Cell(f"one key {self.rope_width}", "memory"), None if self.rope_norm is None else Cell("norm", "norm"))
        heads = fan(heads_cell("K", H, self.nope_width), heads_cell("V", H, self.value_width))
        latent = chain(Cell(f"latent {number(self.kv_rank)}", "memory"), norm, heads)
        read = fan(chain(fan(query, shared), rotary_cell(self.rotary)), latent)
        keys = self.mask.words if self.choice is None else f"{self.mask.words}, best {number(self.choice.keep)} keys"
        mixed = chain(read, Cell(" · ".join(["softmax", keys, *(["a sink per head"] if self.sink else [])]), "mix"))
        remembered = f"remembered: {self.remembered} numbers per token"
        features = self.aligned_width(width)
        aligned = () if features is None else (f"latents × √({number(features)} / rank)",)
        flow = chain(gated(mixed, self.gate), Cell(f"output {number(width)}"))
        both = ("queries of the latent behind and before its norm",) if self.queries_from == "both" else ()
        gates = ("gate by the queries' latent",) if self.gate_from == "queries" else ()
        extras = (words(part) for part in (self.temperature, self.choice) if part is not None)
        return Sketch(
            "Multi-head latent attention", (remembered, *aligned, *both, *gates, *extras, *biases(self.bias, 3)), flow
        )

    def layout(self, width: int) -> WeightLayout:
        moved = self.aligned_to is not None or self.queries_from == "both" or self.gate_from == "queries"
        if self.choice is not None or self.sink is not None or moved:
            return WeightLayout()
        others = {"norm": self.norm, "rope_norm": self.rope_norm, "temperature": self.temperature}
        latent = LatentLayout(
            self.heads, self.kv_rank, self.q_rank, self.nope_width, self.rope_width, self.value_width,
            self.scale_of_scores, self.rotary, "query_down.weight", "query_up.weight", "kv_down.weight", "rope_key.weight",
            "key_up.weight", "value_up.weight", "output.weight",
            tuple(name for name, part in others.items() if part is not None),
        )  # fmt: skip
        return WeightLayout(latent=latent)

    def narrowed(self, width: int, ways: int) -> Self | None:
        # The loss of an index needs the attention weights of all heads.
        return None if self.heads % ways or self.choice is not None else self.but(heads=self.heads // ways)

    def gathers(self, width: int) -> int | None:
        # An index gathers its loss at each position too.
        return self.remembered + (1 if self.index_width else 0)

    def build(self, width: int, plan: Plan, name: str) -> nn.Module:
        from anyformer.parts.attention.latent_module import ChoosingLatentAttentionModule, LatentAttentionModule

        if self.choice is None:
            return LatentAttentionModule(self, width, plan)
        return ChoosingLatentAttentionModule(self, self.choice, width, plan, name)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        B, H, rows = shape.batch, self.heads, shape.rows
        columns = H * self.query_width
        parts = Tally()
        if self.q_rank is not None:
            parts = matrix("query_down", width, self.q_rank, rows, role="replicate", bias="query_down" in self.bias)
        parts += matrix("query_up", self.query_inputs(width), columns, rows, role="column")
        parts += matrix("kv_down", width, self.kv_rank, rows, role="replicate", bias="kv_down" in self.bias)
        parts += matrix("rope_key", width, self.rope_width, rows, role="replicate", bias="kv_down" in self.bias)
        parts += matrix("output", H * self.value_width, width, rows, role="row", bias="output" in self.bias, fill="residual")
        # The absorbed form expands queries instead of keys, and its scores are over the latent's features.
        expanded = rows if self.absorbed(shape, plan) else B * shape.keys
        parts += matrix("key_up", self.kv_rank, H * self.nope_width, expanded, role="column")
        parts += matrix("value_up", self.kv_rank, H * self.value_width, expanded, role="column")
        key, value = (self.kv_rank, self.kv_rank) if self.absorbed(shape, plan) else (self.nope_width, self.value_width)
        pairs, seen = shape.length * shape.keys, self.mask.pairs(shape)
        exact, number_bytes = seen, B * plan.activation_bytes
        if self.choice is not None:
            parts += total({"choice": self.choice.cost(width, self.q_rank or width, self.mask, shape)})
            pairs = shape.length * self.choice.keep if self.sparse(shape.keys, plan) else pairs
            exact = self.mask.pairs_at_most(self.choice.keep, shape)
        parts += pair_work(shape, H, key + self.rope_width, value, pairs, exact)
        if self.rotary is not None:
            # Every query is rotated, and the one key.
            parts += Tally(own_work={"rotary": rotated(rows * self.rotary.rotated(self.rope_width) * (H + 1))})
        if self.norm is not None:
            norms = {"kv_norm": self.norm.cost(self.kv_rank, rows)}
            if self.q_rank is not None:
                norms["query_norm"] = self.norm.cost(self.q_rank, rows)
            parts += total(norms)
        if self.rope_norm is not None:
            parts += total({"rope_norm": self.rope_norm.cost(self.rope_width, rows)})
        if self.sink is not None:
            parts += Tally({"sink": Weight((H,), "column", "zeros")})
        if self.gate is not None:
            parts += total({"gate": self.gate.work(self.gate_inputs(width), H, self.value_width, rows)})
        # A step reads the latents that it chooses, and the index keys of all that it chooses from.
        read = number_bytes * ((self.kv_rank + self.rope_width) * exact + self.index_width * seen)
        held = number_bytes * self.remembered * self.mask.cache_length(shape.cache_length)
        return parts + Tally(own_state=StateBytes.of(shape, held, read), own_limits=self.limits)
