"""Multi-head latent attention: keys and values of all heads from one small latent vector per token."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from anyformer.describe import Count, Positive
from anyformer.operations import Limit, Shape, State, Tally, matrix, total
from anyformer.operations.elementwise import rotated
from anyformer.parts.attention.attend import attend
from anyformer.parts.attention.attends import Attends
from anyformer.parts.attention.heads_sketch import gated, heads_cell, rotary_cell
from anyformer.parts.attention.scores import pair_work
from anyformer.parts.attention.temperature import Temperature
from anyformer.parts.call.context import Context, Digested, Visible
from anyformer.parts.call.ring_state import RingState
from anyformer.parts.call.state import FullState
from anyformer.parts.layout import LatentLayout, Layout
from anyformer.parts.masks.mask import Mask
from anyformer.parts.masks.simple import Causal
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.gate import Gate
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.sketch import Cell, Sketch, biases, chain, fan, number, words
from anyformer.parts.sublayer import Sublayer, Traits
from anyformer.plan import Plan

Projection = Literal["query_down", "kv_down", "output"]


class LatentAttention(Sublayer):
    """Keys and values through a latent c = norm(x W_dkv), (B, S, P) (DeepSeek-V2, arXiv 2405.04434, section 2.1).

        q = [c_q W_uq, rotate(c_q W_qr)] per head, c_q = norm(x W_dq)
        k = [c W_uk per head, rotate(x W_kr) for all heads], v = c W_uv per head
        softmax(q k^T * scale where mask) v W_o, scale = E^-0.5

    The decode state is c and the rotated key, P + R numbers per token. A step of one token does not expand them: q W_uk^T is
    multiplied with c directly, and W_uv is applied after mixing (the paper's absorption). The paper's d_c is P = kv_rank, d'_c
    q_rank, d_h E - R = nope_width, d_h^R R = rope_width.
    """

    kind: Literal["latent_attention"] = "latent_attention"
    heads: Count
    """H."""
    kv_rank: Count
    """P, features of the latent."""
    q_rank: Count | None = None
    """Features of the queries' latent; None projects queries directly."""
    nope_width: Count
    """E - R, features of a head that carry no position."""
    rope_width: Annotated[int, Field(ge=2)]
    """R, features of a head that are rotated; all heads share one rotated key."""
    value_width: Count
    """U, features of a value head."""
    norm: Norm | None = None
    """Norm of both latents (DeepSeek: RMSNorm, eps 1e-6)."""
    rotary: Rotary | None = None
    """Rotation of the R features (DeepSeek: adjacent pairs); without it no feature carries a position (Kimi Linear)."""
    mask: Mask = Causal()
    bias: tuple[Projection, ...] = ()
    scale: Positive | None = None
    gate: Gate | None = None
    temperature: Temperature | None = None
    """A factor of the queries that grows with their positions (Mistral 4)."""

    def check(self, width: int) -> None:
        if self.rotary is not None:
            self.rotary.rotated(self.rope_width)

    def sketch(self, width: int) -> Sketch:
        H, norm = self.heads, None if self.norm is None else Cell("norm", "norm")
        small = None if self.q_rank is None else chain(Cell(f"latent {number(self.q_rank)}"), norm)
        query = chain(small, Cell(f"Q {H} × ({self.nope_width} + {self.rope_width})", count=H))
        shared = Cell(f"one key {self.rope_width}", "memory")
        heads = fan(heads_cell("K", H, self.nope_width), heads_cell("V", H, self.value_width))
        latent = chain(Cell(f"latent {number(self.kv_rank)}", "memory"), norm, heads)
        read = fan(chain(fan(query, shared), rotary_cell(self.rotary)), latent)
        mixed = chain(read, Cell(f"softmax · {self.mask.words}", "mix"))
        warmed = () if self.temperature is None else (words(self.temperature),)
        remembered = f"remembered: {self.kv_rank + self.rope_width} numbers per token"
        flow = chain(gated(mixed, self.gate), Cell(f"output {number(width)}"))
        return Sketch("Multi-head latent attention", (remembered, *warmed, *biases(self.bias, 3)), flow)

    @property
    def tp_divisors(self) -> tuple[int, ...]:
        return (self.heads,)

    @property
    def query_width(self) -> int:
        """E."""
        return self.nope_width + self.rope_width

    @property
    def scale_of_scores(self) -> float:
        """The factor of the scores; E^-0.5 by default."""
        return self.query_width**-0.5 if self.scale is None else self.scale

    def layout(self, width: int) -> Layout:
        latent = LatentLayout(
            self.heads, self.kv_rank, self.q_rank, self.nope_width, self.rope_width, self.value_width,
            self.scale_of_scores, self.rotary, "query_down.weight", "query_up.weight", "kv_down.weight", "rope_key.weight",
            "key_up.weight", "value_up.weight", "output.weight",
            tuple(name for name, part in (("norm", self.norm), ("temperature", self.temperature)) if part is not None),
        )  # fmt: skip
        return Layout(latent=latent)

    def absorbed(self, shape: Shape) -> bool:
        """Whether a call uses the absorbed form, whose keys and values are the latents, P wide."""
        return shape.length == 1 and shape.past > 0

    def narrowed(self, width: int, ways: int) -> Self | None:
        return None if self.heads % ways else self.but(heads=self.heads // ways)

    def gathers(self, width: int) -> int | None:
        return self.kv_rank + self.rope_width

    def resolved(self, width: int) -> Self:
        return self.but(scale=self.scale_of_scores)

    def build(self, width: int, plan: Plan, name: str) -> LatentAttentionModule:
        return LatentAttentionModule(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        B, H, rows = shape.batch, self.heads, shape.rows
        columns = H * self.query_width
        if self.q_rank is None:
            parts = matrix("query_up", width, columns, rows, role="column")
        else:
            parts = matrix("query_down", width, self.q_rank, rows, role="replicate", bias="query_down" in self.bias)
            parts += matrix("query_up", self.q_rank, columns, rows, role="column")
        parts += matrix("kv_down", width, self.kv_rank, rows, role="replicate", bias="kv_down" in self.bias)
        parts += matrix("rope_key", width, self.rope_width, rows, role="replicate", bias="kv_down" in self.bias)
        parts += matrix("output", H * self.value_width, width, rows, role="row", bias="output" in self.bias, fill="residual")
        # The absorbed form expands queries instead of keys, and its scores are over the latent's features.
        expanded = rows if self.absorbed(shape) else B * shape.keys
        parts += matrix("key_up", self.kv_rank, H * self.nope_width, expanded, role="column")
        parts += matrix("value_up", self.kv_rank, H * self.value_width, expanded, role="column")
        key, value = (self.kv_rank, self.kv_rank) if self.absorbed(shape) else (self.nope_width, self.value_width)
        exact = self.mask.pairs(shape)
        parts += pair_work(shape, H, key + self.rope_width, value, shape.length * shape.keys, exact)
        if self.rotary is not None:
            # Every query is rotated, and the one key.
            parts += Tally(own_work={"rotary": rotated(rows * self.rotary.rotated(self.rope_width) * (H + 1))})
        if self.norm is not None:
            norms = {"kv_norm": self.norm.cost(self.kv_rank, rows)}
            if self.q_rank is not None:
                norms["query_norm"] = self.norm.cost(self.q_rank, rows)
            parts += total(norms)
        if self.gate is not None:
            parts += total({"gate": self.gate.cost(width, H, self.value_width, rows)})
        position = B * (self.kv_rank + self.rope_width) * plan.activation_bytes
        held = position * self.mask.cache_length(shape.cache_length)
        return parts + Tally(own_state=State.of(shape, held, position * exact), own_limits=self.limits)

    @property
    def traits(self) -> Traits:
        techniques = {"latent norm": self.norm, "output gate": self.gate, "query temperature": self.temperature}
        stability = tuple(name for name, part in techniques.items() if part is not None)
        return Traits("MLA", "NoPE" if self.rotary is None else "RoPE", stability=stability)

    @property
    def masks(self) -> tuple[Mask, ...]:
        return (self.mask,)

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Contracts that this attention breaks by its mathematics."""
        return (*self.mask.limits, *(self.rotary.limits if self.rotary else ()))

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> FullState | RingState:
        """B * min(window, C) * (P + R) elements, whatever the number of heads."""
        length = self.mask.cache_length(capacity)
        latent, rope = (
            torch.zeros(batch, 1, length, features, dtype=dtype, device=device) for features in (self.kv_rank, self.rope_width)
        )
        return FullState(latent, rope) if length == capacity else RingState(latent, rope)


class LatentAttentionModule(Attends):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, attention: LatentAttention, width: int, plan: Plan) -> None:
        super().__init__(attention.mask)
        self.attention, self.plan = attention, plan
        H, P, bias = attention.heads, attention.kv_rank, attention.bias
        rank = attention.q_rank
        self.query_down = nn.Linear(width, rank, bias="query_down" in bias) if rank else nn.Identity()
        self.query_norm = attention.norm.build(rank) if rank and attention.norm else nn.Identity()
        self.query_up = nn.Linear(rank or width, H * attention.query_width, bias=False)
        self.kv_down = nn.Linear(width, P, bias="kv_down" in bias)
        self.rope_key = nn.Linear(width, attention.rope_width, bias="kv_down" in bias)
        self.kv_norm = attention.norm.build(P) if attention.norm else nn.Identity()
        self.key_up = nn.Linear(P, H * attention.nope_width, bias=False)
        self.value_up = nn.Linear(P, H * attention.value_width, bias=False)
        self.gate = attention.gate.build(width, H, attention.value_width) if attention.gate else None
        self.output = nn.Linear(H * attention.value_width, width, bias="output" in bias)
        self.rotary = Digested.of(attention.rotary) if attention.rotary else None
        self.scale = attention.scale_of_scores

    def extra_repr(self) -> str:
        a = self.attention
        return f"heads={a.heads}, kv_rank={a.kv_rank}, widths={a.nope_width}+{a.rope_width}, value_width={a.value_width}"

    def forward(self, x_BTD: Tensor, context: Context, state: FullState | RingState | None = None) -> Tensor:
        a = self.attention
        q_BTHE = self.query_up(self.query_norm(self.query_down(x_BTD))).view(*x_BTD.shape[:2], a.heads, -1)
        if a.temperature is not None:
            q_BTHE = q_BTHE * a.temperature.factor(context.positions)[..., None, None].to(q_BTHE.dtype)
        nope, rope = q_BTHE.split([a.nope_width, a.rope_width], -1)
        rope = self._rotated(rope, context).transpose(1, 2)
        latent_B1SP = context.gathered(self.kv_norm(self.kv_down(x_BTD)))[:, None]
        key_B1SR = context.gathered(self._rotated(self.rope_key(x_BTD)[:, :, None], context)).transpose(1, 2)
        keys = context.keys
        if state is not None:
            assert context.chunk is not None, "a stack with state enters its chunk first"
            latent_B1SP, key_B1SR, keys = state.extend(latent_B1SP, key_B1SR, context.chunk)
            latent_B1SP, key_B1SR = latent_B1SP.to(rope.dtype), key_B1SR.to(rope.dtype)
        visible = self.visible(x_BTD, context, keys, banded=state is None)
        form = self._absorbed if state is not None and x_BTD.shape[1] == 1 else self._expanded
        mixed_BTHU = form(nope.transpose(1, 2), rope, latent_B1SP, key_B1SR, visible).transpose(1, 2)
        if self.gate is not None:
            mixed_BTHU = self.gate(x_BTD, mixed_BTHU)
        return self.output(mixed_BTHU.flatten(2))  # type: ignore[no-any-return]

    def _expanded(self, nope: Tensor, rope: Tensor, latent: Tensor, key: Tensor, visible: Visible) -> Tensor:
        """Attention with the keys and values of every head, (B, H, T, U): the fewest FLOPs when many queries share them."""
        H = self.attention.heads
        B, _, S, _ = latent.shape
        k = self.key_up(latent[:, 0]).view(B, S, H, -1).transpose(1, 2)
        v = self.value_up(latent[:, 0]).view(B, S, H, -1).transpose(1, 2)
        k = torch.cat([k, key.expand(-1, H, -1, -1).to(k.dtype)], -1)
        q = torch.cat([nope, rope.to(nope.dtype)], -1)
        return attend(q, k, v, visible, scale=self.scale, kernel=self.plan.attention)

    def _absorbed(self, nope: Tensor, rope: Tensor, latent: Tensor, key: Tensor, visible: Visible) -> Tensor:
        """Attention with the latent as the one key and value head of all query heads, (B, H, T, U): nothing is expanded."""
        a = self.attention
        up = self.key_up.weight.view(a.heads, a.nope_width, a.kv_rank).to(nope.dtype)
        q = torch.cat([nope @ up, rope.to(nope.dtype)], -1)
        k = torch.cat([latent, key], -1)
        mixed_BHTP = attend(q, k, latent, visible, scale=self.scale, kernel="plain")
        up_HPU = self.value_up.weight.view(a.heads, a.value_width, a.kv_rank).to(nope.dtype).mT
        return mixed_BHTP @ up_HPU

    def _rotated(self, x_BTHR: Tensor, context: Context) -> Tensor:
        if self.rotary is None:
            return x_BTHR
        table = context.rotary(self.rotary, self.attention.rope_width, x_BTHR.dtype)
        return self.rotary.value.rotate(x_BTHR, table)
