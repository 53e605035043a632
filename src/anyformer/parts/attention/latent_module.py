"""The modules of multi-head latent attention: of all keys, and of keys that are chosen per query."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from anyformer.describe import Digested
from anyformer.parts.attention.attend import attend
from anyformer.parts.attention.attend_chosen import attend_chosen
from anyformer.parts.attention.attends import Attends
from anyformer.parts.attention.indexer import KeyChoice
from anyformer.parts.attention.latent_heads import LatentHeads
from anyformer.parts.attention.named_values_module import put_out, shown_to
from anyformer.parts.attention.scores import by_group
from anyformer.parts.call.annotated_state import AnnotatedState
from anyformer.parts.call.context import Context, Visible
from anyformer.parts.call.opened import OpenedPart
from anyformer.parts.call.ring_state import RingState
from anyformer.parts.call.state import FullState, Keys
from anyformer.plan import Plan


class LatentAttentionModule(Attends):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, attention: LatentHeads, width: int, plan: Plan) -> None:
        super().__init__(attention.mask)
        self.attention, self.plan = attention, plan
        H, P, bias = attention.heads, attention.kv_rank, attention.bias
        rank = attention.q_rank
        self.query_down = nn.Linear(width, rank, bias="query_down" in bias) if rank else nn.Identity()
        self.query_norm = attention.norm.build(rank) if rank and attention.norm else nn.Identity()
        self.query_up = nn.Linear(attention.query_inputs(width), H * attention.query_width, bias=False)
        self.kv_down = nn.Linear(width, P, bias="kv_down" in bias)
        self.rope_key = nn.Linear(width, attention.rope_width, bias="kv_down" in bias)
        self.rope_norm = attention.rope_norm.build(attention.rope_width) if attention.rope_norm else nn.Identity()
        self.kv_norm = attention.norm.build(P) if attention.norm else nn.Identity()
        self.key_up = nn.Linear(P, H * attention.nope_width, bias=False)
        self.value_up = nn.Linear(P, H * attention.value_width, bias=False)
        self.gate = attention.gate.module(attention.gate_inputs(width), H, attention.value_width) if attention.gate else None
        self.sink = nn.Parameter(torch.empty(H)) if attention.sink else None
        self.output = nn.Linear(H * attention.value_width, width, bias="output" in bias)
        self.rotary = Digested.of(attention.rotary) if attention.rotary else None
        self.scale = attention.scale_of_scores
        self.query_factor = attention.factor(rank, width) if rank else 1.0
        self.kv_factor = attention.factor(P, width)

    def extra_repr(self) -> str:
        a = self.attention
        return f"heads={a.heads}, kv_rank={a.kv_rank}, widths={a.nope_width}+{a.rope_width}, value_width={a.value_width}"

    def forward(self, x_BTD: Tensor, context: Context, state: FullState | RingState | None = None) -> Tensor:
        a = self.attention
        raw_BTQ = self.query_down(x_BTD)
        c_BTQ = times(self.query_norm(raw_BTQ), self.query_factor)
        from_BTI = torch.cat([c_BTQ, raw_BTQ], -1) if a.queries_from == "both" else c_BTQ
        q_BTHE = context.see("query", self.query_up(from_BTI).view(*x_BTD.shape[:2], a.heads, -1))
        if a.temperature is not None:
            q_BTHE = q_BTHE * a.temperature.factor(context.positions)[..., None, None].to(q_BTHE.dtype)
        nope, rope = torch.split(q_BTHE, [a.nope_width, a.rope_width], -1)
        rope = context.rotated(rope, self.rotary).transpose(1, 2)
        latent_BTP = context.see("latent", times(self.kv_norm(self.kv_down(x_BTD)), self.kv_factor))
        latent_B1SP = context.gathered(latent_BTP)[:, None]
        turning_BTR = context.see("rope_key", self.rope_norm(self.rope_key(x_BTD)))
        key_BT1R = context.rotated(turning_BTR[:, :, None], self.rotary)
        key_B1SR = context.gathered(key_BT1R).transpose(1, 2)
        keys = context.keys
        if state is not None:
            assert context.chunk is not None, "a stack with state enters its chunk first"
            latent_B1SP, key_B1SR, keys = state.extend(latent_B1SP, key_B1SR, context.chunk)
            latent_B1SP, key_B1SR = latent_B1SP.to(rope.dtype), key_B1SR.to(rope.dtype)
        parts = nope.transpose(1, 2), rope, latent_B1SP, key_B1SR
        mixed_BTHU = context.see("mixed", self.mixed(x_BTD, c_BTQ, parts, keys, context, state).transpose(1, 2))
        if self.gate is not None:
            mixed_BTHU = self.gate(from_BTI if a.gate_from == "queries" else x_BTD, mixed_BTHU)
        return put_out(self.output, mixed_BTHU, context)

    def mixed(
        self, x_BTD: Tensor, c_BTQ: Tensor, parts: Parts, keys: Keys, context: Context, state: FullState | RingState | None
    ) -> Tensor:
        """The mixed values, (B, H, T, U). c: what queries are made of."""
        visible = self.visible(x_BTD, context, keys, banded=state is None and shown_to(context.opened) is None)
        return self._dense(parts, visible, shown_to(context.opened), one=state is not None and x_BTD.shape[1] == 1)

    def _dense(self, parts: Parts, visible: Visible, shown: OpenedPart | None, *, one: bool) -> Tensor:
        """Attention to all visible keys. `one`: of a single query, whose form expands none."""
        how: dict[str, Any] = {"scale": self.scale, "sink_H": self.sink, "shown": shown}
        if one:
            nope, rope, latent, key = parts
            # What rotated keys add to the scores: so latents are read where they lie, and not copied beside these keys.
            turned_BHTS = (by_group(rope * self.scale, 1) @ key.mT).transpose(1, 2)
            kernel = self.plan.attention if rope.device.type == "cpu" else "plain"  # a GPU's would copy the latents per head
            return self._valued(attend(self._into_latent(nope), latent, latent, visible, turned_BHTS, kernel=kernel, **how))
        return attend(*self._expanded(*parts), visible, kernel=self.plan.attention, **how)

    def _expanded(self, nope: Tensor, rope: Tensor, latent: Tensor, key: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of every head, (B, H, T or S, ...): the fewest FLOPs when many queries share them."""
        H = self.attention.heads
        B, _, S, _ = latent.shape
        k = self.key_up(latent[:, 0]).view(B, S, H, -1).transpose(1, 2)
        v = self.value_up(latent[:, 0]).view(B, S, H, -1).transpose(1, 2)
        k = torch.cat([k, key.expand(-1, H, -1, -1).to(k.dtype)], -1)
        return torch.cat([nope, rope.to(nope.dtype)], -1), k, v

    def _absorbed(self, nope: Tensor, rope: Tensor, latent: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """Queries (B, H, T, P + R), and their one key head (B, 1, S, P + R), whose first P features are the values."""
        return torch.cat([self._into_latent(nope), rope.to(nope.dtype)], -1), torch.cat([latent, key], -1)

    def _into_latent(self, nope_BHTE: Tensor) -> Tensor:
        """Queries that are multiplied by latents, (B, H, T, P)."""
        a = self.attention
        return nope_BHTE @ self.key_up.weight.view(a.heads, a.nope_width, a.kv_rank).to(nope_BHTE.dtype)

    def _valued(self, mixed_BHTP: Tensor) -> Tensor:
        """Mixed latents -> mixed values, (B, H, T, U)."""
        a = self.attention
        return mixed_BHTP @ self.value_up.weight.view(a.heads, a.value_width, a.kv_rank).to(mixed_BHTP.dtype).mT


def times(x: Tensor, factor: float) -> Tensor:
    """x * factor, without the product where the factor is 1."""
    return x if factor == 1.0 else x * factor


Parts = tuple[Tensor, Tensor, Tensor, Tensor]
"""Queries without and with positions, (B, H, T, ...); latents and rotated keys, (B, 1, S, ...)."""


class ChoosingLatentAttentionModule(LatentAttentionModule):
    """(B, T, D) -> (B, T, D), each query over the keys chosen for it."""

    def __init__(self, attention: LatentHeads, choice: KeyChoice, width: int, plan: Plan, name: str) -> None:
        super().__init__(attention, width, plan)
        self.choice = choice.build(width, attention.q_rank or width, name)

    def mixed(
        self, x_BTD: Tensor, c_BTQ: Tensor, parts: Parts, keys: Keys, context: Context, state: FullState | RingState | None
    ) -> Tensor:
        index = self.choice.index(x_BTD, context)
        if index is not None and state is not None:
            assert isinstance(state, AnnotatedState), "made by the description"
            assert context.chunk is not None, "a stack with state enters its chunk first"
            index = state.extend_beside(index, context.chunk)
        visible = self.visible(x_BTD, context, keys)
        chosen, told = self.choice(x_BTD, c_BTQ, index, visible, context), self.choice.wants(context)
        shown = shown_to(context.opened)
        if self.attention.sparse(chosen.keys, self.plan) and shown is None:
            q, k = (x.transpose(1, 2) for x in self._absorbed(*parts))
            width, allowed = self.attention.kv_rank, chosen.allowed
            mixed_BTHP, share = attend_chosen(q, k, width, chosen.indices, allowed, scale=self.scale, sink_H=self.sink)
            mixed = self._valued(mixed_BTHP.transpose(1, 2))
        else:
            visible = visible if chosen.all_keys else visible.narrowed(chosen.dense())
            if not told:
                return self._dense(parts, visible, shown, one=state is not None and x_BTD.shape[1] == 1)
            q, k, v = (x.transpose(1, 2) for x in self._expanded(*parts))
            allowed = visible.dense(x_BTD.shape[1], x_BTD.device)
            seen = None if allowed is None else allowed[:, 0].expand(q.shape[0], -1, -1)
            plain = self.plan.attention == "plain"
            mixed_BTHU, share = attend_chosen(q, k, v, None, seen, scale=self.scale, sink_H=self.sink, plain=plain)
            share = share if chosen.all_keys else share.gather(-1, chosen.indices)
            mixed = mixed_BTHU.transpose(1, 2)
        if told:
            self.choice.report(chosen, share, context)
        return mixed if shown is None else self._dense(parts, visible, shown, one=False)
