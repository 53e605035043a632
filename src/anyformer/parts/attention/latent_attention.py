"""Multi-head latent attention: keys and values of all heads from one small latent vector per token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from anyformer.parts.attention.attend import attend
from anyformer.parts.attention.attend_keeps import Seen, Sizes, attend_keeps
from anyformer.parts.attention.heads_sketch import gated, heads_cell, rotary_cell
from anyformer.parts.call.context import Context, Labelled, Visible
from anyformer.parts.call.state import FullState, RingState
from anyformer.parts.masks.mask import Mask
from anyformer.parts.masks.simple import Causal
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.elementwise import ROTATED, normalised
from anyformer.parts.pointwise.gate import Gate
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.sketch import Cell, Sketch, biases, chain, fan, number
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan
from anyformer.tally import Flops, Limit, Shape, Tally, matrix, total
from anyformer.tape import Held, Tape

Count = Annotated[int, Field(ge=1)]
Projection = Literal["query_down", "kv_down", "output"]


class LatentAttention(Sublayer):
    """Keys and values through a latent c = norm(x W_dkv), (B, S, R) (DeepSeek-V2, arXiv 2405.04434, section 2.1).

        q = [c_q W_uq, rotate(c_q W_qr)] per head, c_q = norm(x W_dq)
        k = [c W_uk per head, rotate(x W_kr) for all heads], v = c W_uv per head
        softmax(q k^T * scale where mask) v W_o, scale = (N + P)^-0.5

    Only c and the rotated key are remembered: R + P numbers per token. A step of one token never expands them: q W_uk^T meets
    c directly, and W_uv is applied after mixing (the paper's absorption). The paper's d_c is R = kv_rank, d'_c q_rank,
    d_h N = nope_width, d_h^R P = rope_width.
    """

    kind: Literal["latent_attention"] = "latent_attention"
    heads: Count
    """H."""
    kv_rank: Count
    """R, features of the latent."""
    q_rank: Count | None = None
    """Features of the queries' latent; None projects queries directly."""
    nope_width: Count
    """N, features of a head that carry no position."""
    rope_width: Annotated[int, Field(ge=2)]
    """P, features of a head that are rotated; their key is one for all heads."""
    value_width: Count
    """Features of a value head."""
    norm: Norm | None = None
    """Norm of both latents (DeepSeek: RMSNorm, eps 1e-6)."""
    rotary: Rotary | None = None
    """Rotation of the P features (DeepSeek: adjacent pairs); without it they carry no position (Kimi Linear)."""
    mask: Mask = Causal()
    bias: tuple[Projection, ...] = ()
    scale: Annotated[float, Field(gt=0)] | None = None
    gate: Gate | None = None

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
        remembered = f"remembered: {self.kv_rank + self.rope_width} numbers per token"
        flow = chain(gated(mixed, self.gate), Cell(f"output {number(width)}"))
        return Sketch("Multi-head latent attention", (remembered, *biases(self.bias, 3)), flow)

    @property
    def cuts(self) -> tuple[int, ...]:
        return (self.heads,)

    @property
    def query_width(self) -> int:
        """N + P."""
        return self.nope_width + self.rope_width

    @property
    def scale_of_scores(self) -> float:
        """Their factor."""
        return self.query_width**-0.5 if self.scale is None else self.scale

    def absorbed(self, shape: Shape) -> bool:
        """Whether queries meet the latents themselves, which are then as wide as R."""
        return shape.length == 1 and shape.past > 0

    def meetings(self, width: int, shape: Shape) -> Mapping[str, tuple[int, int]]:
        key, value = (self.kv_rank, self.kv_rank) if self.absorbed(shape) else (self.nope_width, self.value_width)
        return {"scores": (self.heads, key + self.rope_width), "mix": (self.heads, value)}

    def elementwise(self, width: int) -> Mapping[str, int]:
        """P features of every query and of the one key; norms of both latents."""
        rotary = 0 if self.rotary is None else ROTATED * self.rotary.rotated(self.rope_width) * (self.heads + 1)
        latents = [self.kv_rank, *([self.q_rank] if self.q_rank else [])]
        return {"rotary": rotary, "norms": 0 if self.norm is None else sum(map(normalised, latents))}

    def spelled_out(self, width: int) -> Self:
        return self.but(scale=self.scale_of_scores)

    def build(self, width: int, plan: Plan, name: str) -> LatentAttentionModule:
        return LatentAttentionModule(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        B, H, rows = shape.batch, self.heads, shape.batch * shape.length
        columns = H * self.query_width
        if self.q_rank is None:
            parts = matrix("query_up", width, columns, rows, role="column")
        else:
            parts = matrix("query_down", width, self.q_rank, rows, role="replicate", bias="query_down" in self.bias)
            parts += matrix("query_up", self.q_rank, columns, rows, role="column")
        parts += matrix("kv_down", width, self.kv_rank, rows, role="replicate", bias="kv_down" in self.bias)
        parts += matrix("rope_key", width, self.rope_width, rows, role="replicate", bias="kv_down" in self.bias)
        parts += matrix("output", H * self.value_width, width, rows, role="row", bias="output" in self.bias, fill="residual")
        # Absorbed, the two expansions turn from per key to per query, and meet the keys as wide as the latent.
        expanded = rows if self.absorbed(shape) else B * shape.keys
        parts += matrix("key_up", self.kv_rank, H * self.nope_width, expanded, role="column")
        parts += matrix("value_up", self.kv_rank, H * self.value_width, expanded, role="column")
        dense, exact = shape.length * shape.keys, self.mask.pairs(shape)
        per_pair = {name: 2 * B * heads * features for name, (heads, features) in self.meetings(width, shape).items()}
        parts += Tally(flops={name: Flops(work * dense, work * exact) for name, work in per_pair.items()})
        if self.norm is not None:
            norms = {"kv_norm": self.norm.cost(self.kv_rank)}
            if self.q_rank is not None:
                norms["query_norm"] = self.norm.cost(self.q_rank)
            parts += total(norms)
        if self.gate is not None:
            parts += total({"gate": self.gate.cost(width, H, self.value_width, rows)})
        state = B * self.mask.room(shape.room) * (self.kv_rank + self.rope_width) * plan.activation_bytes
        return parts + Tally(state_bytes={"": state}, limits=self.limits)

    def keeps(self, tape: Tape, x: Held, width: int) -> Held:
        """The latent and what is made of it for every head; rotated parts are copied into whole queries and keys."""
        H, N, P, V = self.heads, self.nope_width, self.rope_width, self.value_width
        q = x
        if self.q_rank is not None:
            q = tape.linear("query_down", x, width, self.q_rank)
            q = self.norm.keeps(tape.within("query_norm"), q, self.q_rank) if self.norm else q
        q = tape.linear("query_up", q, self.q_rank or width, H * (N + P))
        if self.rotary is not None:
            self.rotary.keeps(tape, q, P)
        latent = tape.linear("kv_down", x, width, self.kv_rank)
        latent = self.norm.keeps(tape.within("kv_norm"), latent, self.kv_rank) if self.norm else latent
        rope = tape.linear("rope_key", x, width, P)
        if self.rotary is not None:
            self.rotary.keeps(tape, rope, P)
        tape.linear("key_up", latent, self.kv_rank, H * N)
        v = tape.linear("value_up", latent, self.kv_rank, H * V)
        q, k = tape.like(q), tape.like(q)
        seen = Seen.of(self.mask, tape.shape, banded=True)
        mixed = attend_keeps(tape, Sizes(H, H, N + P, V), q, k, v, seen)
        if self.gate is None and seen.band is None and H > 1 and tape.shape.length > 1:
            # Queries stand head by head, so what a kernel makes of them does too: side by side it is a copy.
            mixed = tape.like(mixed)
        if self.gate is not None:
            mixed = self.gate.keeps(tape.within("gate"), x, mixed, width, H, V)
        return tape.linear("output", mixed, H * V, width)

    @property
    def mixing(self) -> str | None:
        return "MLA"

    @property
    def position_name(self) -> str | None:
        return "NoPE" if self.rotary is None else "RoPE"

    @property
    def tricks(self) -> tuple[str, ...]:
        there = {"latent norm": self.norm, "output gate": self.gate}
        return tuple(name for name, part in there.items() if part is not None)

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
        """B * min(window, C) * (R + P) elements, however many heads there are."""
        room = self.mask.room(capacity)
        latent, rope = (
            torch.zeros(batch, 1, room, features, dtype=dtype, device=device) for features in (self.kv_rank, self.rope_width)
        )
        return FullState(latent, rope) if room == capacity else RingState(latent, rope)


class LatentAttentionModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, attention: LatentAttention, width: int, plan: Plan) -> None:
        super().__init__()
        self.attention, self.plan = attention, plan
        H, R, bias = attention.heads, attention.kv_rank, attention.bias
        Q = attention.q_rank
        self.query_down = nn.Linear(width, Q, bias="query_down" in bias) if Q else nn.Identity()
        self.query_norm = attention.norm.build(Q) if Q and attention.norm else nn.Identity()
        self.query_up = nn.Linear(Q or width, H * attention.query_width, bias=False)
        self.kv_down = nn.Linear(width, R, bias="kv_down" in bias)
        self.rope_key = nn.Linear(width, attention.rope_width, bias="kv_down" in bias)
        self.kv_norm = attention.norm.build(R) if attention.norm else nn.Identity()
        self.key_up = nn.Linear(R, H * attention.nope_width, bias=False)
        self.value_up = nn.Linear(R, H * attention.value_width, bias=False)
        self.gate = attention.gate.build(width, H, attention.value_width) if attention.gate else None
        self.output = nn.Linear(H * attention.value_width, width, bias="output" in bias)
        self.mask: Labelled[Mask] = Labelled(attention.mask, attention.mask.digest)
        self.rotary = Labelled.of(attention.rotary) if attention.rotary else None
        self.scale = attention.scale_of_scores

    def extra_repr(self) -> str:
        a = self.attention
        return f"heads={a.heads}, kv_rank={a.kv_rank}, widths={a.nope_width}+{a.rope_width}, value_width={a.value_width}"

    def forward(self, x_BTD: Tensor, context: Context, state: FullState | RingState | None = None) -> Tensor:
        a = self.attention
        q_BTHQ = self.query_up(self.query_norm(self.query_down(x_BTD))).view(*x_BTD.shape[:2], a.heads, -1)
        nope, rope = q_BTHQ.split([a.nope_width, a.rope_width], -1)
        rope = self._rotated(rope, context).transpose(1, 2)
        latent_B1SR = self.kv_norm(self.kv_down(x_BTD))[:, None]
        key_B1SP = self._rotated(self.rope_key(x_BTD)[:, :, None], context).transpose(1, 2)
        keys = context.keys
        if state is not None:
            assert context.chunk is not None, "a stack with state enters its chunk first"
            latent_B1SR, key_B1SP, keys = state.extend(latent_B1SR, key_B1SP, context.chunk)
            latent_B1SR, key_B1SP = latent_B1SR.to(rope.dtype), key_B1SP.to(rope.dtype)
        visible = context.visible(self.mask, keys, banded=state is None)
        form = self._absorbed if state is not None and x_BTD.shape[1] == 1 else self._expanded
        mixed_BTHV = form(nope.transpose(1, 2), rope, latent_B1SR, key_B1SP, visible).transpose(1, 2)
        if self.gate is not None:
            mixed_BTHV = self.gate(x_BTD, mixed_BTHV)
        return self.output(mixed_BTHV.flatten(2))  # type: ignore[no-any-return]

    def _expanded(self, nope: Tensor, rope: Tensor, latent: Tensor, key: Tensor, visible: Visible) -> Tensor:
        """Keys and values of every head, written out: fewest FLOPs where many queries share them. (B, H, T, V)."""
        H = self.attention.heads
        B, _, S, _ = latent.shape
        k = self.key_up(latent[:, 0]).view(B, S, H, -1).transpose(1, 2)
        v = self.value_up(latent[:, 0]).view(B, S, H, -1).transpose(1, 2)
        k = torch.cat([k, key.expand(-1, H, -1, -1).to(k.dtype)], -1)
        q = torch.cat([nope, rope.to(nope.dtype)], -1)
        return attend(q, k, v, visible, scale=self.scale, kernel=self.plan.attention)

    def _absorbed(self, nope: Tensor, rope: Tensor, latent: Tensor, key: Tensor, visible: Visible) -> Tensor:
        """The latent is the one key and value head that all query heads read; nothing is expanded. (B, H, T, V)."""
        a = self.attention
        up_HNR = self.key_up.weight.view(a.heads, a.nope_width, a.kv_rank).to(nope.dtype)
        q = torch.cat([nope @ up_HNR, rope.to(nope.dtype)], -1)
        k = torch.cat([latent, key], -1)
        mixed_BHTR = attend(q, k, latent, visible, scale=self.scale, kernel="plain")
        up_HRV = self.value_up.weight.view(a.heads, a.value_width, a.kv_rank).to(nope.dtype).mT
        return mixed_BHTR @ up_HRV

    def _rotated(self, x_BTHP: Tensor, context: Context) -> Tensor:
        if self.rotary is None:
            return x_BTHP
        table = context.rotary(self.rotary, self.attention.rope_width, x_BTHP.dtype)
        return self.rotary.value.rotate(x_BTHP, table)
