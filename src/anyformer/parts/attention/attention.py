"""Self-attention: multi-head, multi-query and grouped-query, with any head width, and all that is put on its scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from anyformer.parts.attention.attend_keeps import Seen
from anyformer.parts.attention.heads import Heads
from anyformer.parts.attention.heads_module import HeadsModule
from anyformer.parts.attention.heads_sketch import heads_sketch, heads_title, rotary_cell
from anyformer.parts.attention.score_bias import ScoreBias
from anyformer.parts.attention.temperature import Temperature
from anyformer.parts.call.context import Context, Labelled, Memory
from anyformer.parts.call.state import FullState, RingState
from anyformer.parts.masks.mask import Mask
from anyformer.parts.masks.simple import Causal
from anyformer.parts.pointwise.elementwise import ROTATED, normalised
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.sketch import Sketch, words
from anyformer.plan import Plan
from anyformer.tally import Limit, Shape, Tally, Weight, total
from anyformer.tape import Held, Source, Tape


class SelfAttention(Heads):
    """What self-attentions over heads share: mask, positions, state."""

    mask: Mask = Causal()
    """Which positions a query may look at."""
    rotary: Rotary | None = None
    qk_norm_at: Literal["before_rotary", "after_rotary"] = "before_rotary"
    """Where queries and keys are normalised (Llama 4 and Hunyuan: after)."""
    score_bias: ScoreBias | None = None
    """Added to the scores of this layer; a stack may have one for all its layers."""
    temperature: Temperature | None = None
    """Factor of the queries by position."""
    virtual_tokens: Annotated[int, Field(ge=1)] | None = None
    """Learned keys and values that every query sees, without a position (prefix tuning, Li & Liang 2021, arXiv 2101.00190)."""
    keys_from: str | None = None
    """A variant of the stack: read the keys and values of its latest layer before this one, and have none (Gemma 3n)."""

    @model_validator(mode="after")
    def _makes_sense(self) -> SelfAttention:
        if self.qk_norm_at == "after_rotary" and (self.qk_norm is None or self.qk_norm_over != "head"):
            raise ValueError("qk_norm_at = 'after_rotary' needs a qk_norm over each head, with one gain for all")
        if self.keys_from is not None and (self.value_norm or self.values == "keys"):
            raise ValueError("with keys_from this layer has no keys and values of its own: leave value_norm and values out")
        if self.keys_from is not None and {"key", "value"} & set(self.bias):
            raise ValueError("with keys_from this layer has no keys and values of its own: no bias on 'key' or 'value'")
        return self

    def check(self, width: int) -> None:
        """Refuse what only the width reveals."""
        E = self.width_of_head(width)
        if self.rotary is not None:
            self.rotary.rotated(E)
        if self.score_bias is not None:
            self.score_bias.check(width)

    def sketch(self, width: int) -> Sketch:
        turned = rotary_cell(self.rotary)
        return heads_sketch(self, width, self.called, self.said, turned=turned, late=self._late, memory=self.keys_from)

    @property
    def called(self) -> str:
        """What it is called above its picture."""
        return f"{heads_title(self)} attention"

    @property
    def said(self) -> tuple[str, ...]:
        """What shapes its scores, in words."""
        there = [words(part) for part in (self.score_bias, self.temperature) if part is not None]
        virtual = [] if self.virtual_tokens is None else [f"{self.virtual_tokens} virtual tokens"]
        return (self.mask.words, *there, *virtual)

    def build(self, width: int, plan: Plan, name: str) -> AttentionModule:
        return AttentionModule(self, width, plan, name)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        rows = shape.batch * shape.length
        own, P = self.keys_from is None, self.virtual_tokens or 0
        E, U, K = self.width_of_head(width), self.width_of_value(width), self.groups
        virtual = {name: Weight((K, P, of), "column", "matrix") for name, of in zip(VIRTUAL, (E, U), strict=True)} if P else {}
        pairs = shape.length * P
        state = shape.batch * K * self.mask.room(shape.room) * (E + U) * plan.activation_bytes
        bias = Tally() if self.score_bias is None else total({"score_bias": self.score_bias.cost(self, width, shape)})
        return (
            self.projections(width, rows, rows, reads=own)
            + self.products(width, shape, shape.length * shape.keys + pairs, self.mask.pairs(shape) + pairs)
            + bias
            + Tally(virtual, state_bytes={"": state} if own else {}, limits=self.limits)
        )

    def keeps(self, tape: Tape, x: Held, width: int) -> Held:
        q = self._placed_keeps(tape, "query", self.queries_keep(tape, x, width, late=self._late), width)
        if self.temperature is not None:
            q = tape.times("temperature", q, tape.new(tape.shape.length, q.number, learns=False))
        if self.keys_from is None:
            key, value = self.keys_and_values_keep(tape, x, width, late=self._late)
            tape.memories[tape.variant] = Source(self._placed_keeps(tape, "key", key, width), value)
        memory = tape.memories[self.keys_from or tape.variant]
        if self.keys_from is not None:
            tape.give("shared", memory.key, memory.value)
        bias = tape.score_bias()
        if self.score_bias is not None and not tape.scoreless:
            own = self.score_bias.keeps(tape.within("score_bias"), self, q, memory.key, width)
            bias = own if bias is None else tape.new(max(bias.elements, own.elements), "fp32", learns=bias.learns or own.learns)
        P = self.virtual_tokens or 0
        k, v = memory.key, memory.value
        if P:
            k, v = (
                tape.new(tape.shape.batch * self.groups * (tape.shape.length + P) * of, x.number)
                for x, of in ((k, self.width_of_head(width)), (v, self.width_of_value(width)))
            )
            pairs = self.heads * tape.shape.length * (tape.shape.length + P)
            bias = bias and tape.new(pairs, bias.number, learns=bias.learns)
        banded = bias is None and not P and not (tape.training and self.dropout)
        seen = Seen.of(self.mask, tape.shape, banded=banded, virtual=P)
        return self.mix_keeps(tape, x, width, q, k, v, seen, bias)

    def elementwise(self, width: int) -> Mapping[str, int]:
        """Of queries, and of keys where they are this layer's own."""
        E, heads = self.width_of_head(width), (self.heads, self.groups if self.keys_from is None else 0)
        work = {"rotary": 0 if self.rotary is None else ROTATED * self.rotary.rotated(E) * sum(heads)}
        if self.qk_norm is not None:
            whole = self.qk_norm_over == "projection"
            work["norms"] = sum(normalised(H * E) if whole else normalised(E, H) for H in heads if H)
        return work

    @property
    def _late(self) -> bool:
        return self.qk_norm_at == "after_rotary"

    def _placed_keeps(self, tape: Tape, name: str, x: Held, width: int) -> Held:
        E = self.width_of_head(width)
        x = self.rotary.keeps(tape, x, E) if self.rotary is not None else x
        return self.qk_norm.keeps(tape.within(f"{name}_norm"), x, E) if self._late and self.qk_norm else x

    @property
    def mixing(self) -> str | None:
        return "MHA" if self.groups == self.heads else "MQA" if self.groups == 1 else "GQA"

    @property
    def position_name(self) -> str | None:
        names = ["RoPE"] if self.rotary is not None else []
        names += [self.score_bias.position_name] if self.score_bias is not None else []
        return "+".join(names) or "NoPE"

    @property
    def tricks(self) -> tuple[str, ...]:
        return (*super().tricks, "query temperature") if self.temperature is not None else super().tricks

    @property
    def keys_of(self) -> str | None:
        return self.keys_from

    @property
    def shared_bias_heads(self) -> int | None:
        return self.heads

    @property
    def reads_relative(self) -> int | None:
        return self.score_bias.reads_relative if self.score_bias else None

    @property
    def masks(self) -> tuple[Mask, ...]:
        return (self.mask,)

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Contracts that this attention breaks by its mathematics."""
        scaling = self.rotary.limits if self.rotary else ()
        return (*self.mask.limits, *scaling)

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> FullState | RingState | None:
        """A ring where the mask forgets, else everything: B * K * min(window, C) * (E + U) elements; None if shared."""
        if self.keys_from is not None:
            return None
        room = self.mask.room(capacity)
        key, value = (
            torch.zeros(batch, self.groups, room, features, dtype=dtype, device=device)
            for features in (self.width_of_head(width), self.width_of_value(width))
        )
        return FullState(key, value) if room == capacity else RingState(key, value)


class Attention(SelfAttention):
    """Self-attention: softmax(q k^T * scale where mask) v, heads side by side, then the output projection.

    q = x W_q: (B, T, H, E); k, v = x W_k, x W_v: (B, T, K, E); query head h reads kv head h // (H / K). Multi-head:
    Vaswani et al. 2017 (arXiv 1706.03762), multi-query: Shazeer 2019 (1911.02150), grouped: Ainslie et al. 2023 (2305.13245).
    The papers' d_model is D, d_k and d_v are E, h is H.
    """

    kind: Literal["attention"] = "attention"


VIRTUAL = ("virtual_key", "virtual_value")


class AttentionModule(HeadsModule):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, attention: SelfAttention, width: int, plan: Plan, name: str) -> None:
        late = attention.qk_norm_at == "after_rotary"
        super().__init__(attention, width, plan, name, reads=attention.keys_from is None, norms_late=late)
        self.attention = attention
        self.mask: Labelled[Mask] = Labelled(attention.mask, attention.mask.digest)
        self.rotary = Labelled.of(attention.rotary) if attention.rotary else None
        self.score_bias = attention.score_bias.build(attention, width) if attention.score_bias else None
        for vector, features in zip(VIRTUAL, (self.head_width, self.value_width), strict=True):
            if not attention.virtual_tokens:
                break
            shape = (attention.groups, attention.virtual_tokens, features)
            self.register_parameter(vector, nn.Parameter(torch.empty(shape)))

    def forward(self, x_BTD: Tensor, context: Context, state: FullState | RingState | None = None) -> Tensor:
        q = self._placed(self.queries(x_BTD), self.query_norm, context)
        if self.attention.temperature is not None:
            q = q * self.attention.temperature.factor(context.positions)[..., None, None].to(q.dtype)
        q = q.transpose(1, 2)
        if self.attention.keys_from is not None:
            memory = context.memories[self.attention.keys_from]
        else:
            memory = self._remember(x_BTD, context, state)
        bias = context.score_bias(q, memory)
        if self.score_bias is not None:
            own = self.score_bias(q, memory, context, self)
            bias = own if bias is None else bias + own
        banded = bias is None and self.attention.virtual_tokens is None and not self.drops
        k, v, visible = memory.key, memory.value, context.visible(self.mask, memory.keys, banded=banded)
        if self.attention.virtual_tokens is not None:
            k, v = (
                torch.cat([self.get_parameter(name).to(x.dtype).expand(len(x), -1, -1, -1), x], 2)
                for name, x in zip(VIRTUAL, (k, v), strict=True)
            )
            visible = visible.after(self.attention.virtual_tokens, x_BTD.shape[1], x_BTD.device)
            bias = None if bias is None else nn.functional.pad(bias, (self.attention.virtual_tokens, 0))
        return self.mix(x_BTD, q, k, v, visible, context, bias)

    def _remember(self, x_BTD: Tensor, context: Context, state: FullState | RingState | None) -> Memory:
        """This layer's keys and values, with those of its state; left in the context for layers that share them."""
        k, v = self.keys_and_values(x_BTD)
        k, v = self._placed(k, self.key_norm, context).transpose(1, 2), v.transpose(1, 2)
        keys = context.keys
        if state is not None:
            assert context.chunk is not None, "a stack with state enters its chunk first"
            k, v, keys = state.extend(k, v, context.chunk)
        memory = Memory(k, v, keys)
        context.memories[context.variant] = memory
        return memory

    def _placed(self, x_BTHE: Tensor, norm: torch.nn.Module, context: Context) -> Tensor:
        """Rotated by position, and normalised after that where the description says so."""
        if self.rotary is not None:
            table = context.rotary(self.rotary, self.head_width, x_BTHE.dtype)
            x_BTHE = self.rotary.value.rotate(x_BTHE, table)
        return norm(x_BTHE) if self.norms_late else x_BTHE
