"""Self-attention: multi-head, multi-query and grouped-query, with any head width, positions and score biases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

import torch
from pydantic import model_validator
from torch import Tensor, nn

from anyformer.describe import Count, Value
from anyformer.operations import Dimension, Limit, Operation, Shape, State, Tally, Weight, total
from anyformer.operations.elementwise import rotated
from anyformer.parts.attention.exclusive import Exclusive
from anyformer.parts.attention.heads import Heads
from anyformer.parts.attention.heads_module import HeadsModule
from anyformer.parts.attention.heads_sketch import heads_sketch, heads_title, rotary_cell
from anyformer.parts.attention.joined import Joined
from anyformer.parts.attention.score_bias import SCORE_BIAS, ScoreBias
from anyformer.parts.attention.temperature import Temperature
from anyformer.parts.attention.value_residual import ValueResidual
from anyformer.parts.call.context import Context, Digested, Memory
from anyformer.parts.call.ring_state import RingState
from anyformer.parts.call.shared import Read
from anyformer.parts.call.state import FullState
from anyformer.parts.layout import HeadsLayout, Layout
from anyformer.parts.masks.mask import Mask
from anyformer.parts.masks.simple import Causal
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.sketch import Sketch, words
from anyformer.parts.sublayer import Traits
from anyformer.plan import Plan

VALUES = "values"
"""Name in `Context.shared` of the values (B, T, K, U) that a self-attention uses for the tokens of the call."""
MEMORY = "keys and values"
"""Name in `Context.shared` of the `Memory` of a self-attention: its keys and values, with those of its decode state."""


class SelfAttention(Heads):
    """The base of self-attentions over heads: mask, positions, decode state."""

    mask: Mask = Causal()
    """The positions that each query may see."""
    rotary: Rotary | None = None
    score_bias: ScoreBias | None = None
    """Bias of this layer's scores; a stack may have one for all its layers."""
    temperature: Temperature | None = None
    """Factor of the queries by position."""
    virtual_tokens: Count | None = None
    """Learned keys and values that every query sees, without a position (prefix tuning, Li & Liang 2021, arXiv 2101.00190)."""
    keys_from: str | None = None
    """A variant: this layer reads the keys and values of its latest layer before, and has none of its own (Gemma 3n)."""
    value_residual: ValueResidual | None = None
    exclusive: Exclusive | None = None
    """What of its own value a token takes out of what its heads mix."""
    joined: Joined | None = None
    """An earlier stream that its projections read beside x."""

    @model_validator(mode="after")
    def _makes_sense(self) -> SelfAttention:
        own = {
            "value_norm": self.value_norm is not None,
            "values": self.values == "keys",
            "value_residual": self.value_residual is not None,
            "exclusive": self.exclusive is not None,
            "the bias on 'key' or 'value'": not {"key", "value"}.isdisjoint(self.bias),
        }
        if self.keys_from is not None and any(own.values()):
            without = " and ".join(name for name, given in own.items() if given)
            raise ValueError(f"with keys_from this layer has no keys and values of its own: leave {without} out")
        return self

    def check(self, width: int) -> None:
        """Refuse a width that does not fit."""
        E = self.width_of_head(width)
        if self.rotary is not None:
            self.rotary.rotated(E)
        if self.score_bias is not None:
            self.score_bias.check(width)
        if self.joined is not None:
            self.joined.check(width)

    def inputs(self, width: int) -> int:
        return width if self.joined is None else 2 * width

    def sketch(self, width: int) -> Sketch:
        return heads_sketch(self, width, self.title, self.facts, rotary=rotary_cell(self.rotary), memory=self.keys_from)

    @property
    def title(self) -> str:
        """The title of its picture."""
        return f"{heads_title(self)} attention"

    @property
    def facts(self) -> tuple[str, ...]:
        """The rules of its scores in words, for pictures."""
        facts = [self.mask.words, *(words(part) for part in (self.score_bias, self.temperature) if part is not None)]
        if self.virtual_tokens is not None:
            facts.append(f"{self.virtual_tokens} virtual tokens")
        if self.value_residual is not None:
            facts.append(f"with values of the latest {self.value_residual.variant} layer")
        if self.exclusive is not None:
            facts.append("without the direction of a token's own value")
        return (*facts, *((self.joined.words,) if self.joined is not None else ()))

    def build(self, width: int, plan: Plan, name: str) -> AttentionModule:
        return AttentionModule(self, width, plan, name)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        rows, own, P = shape.rows, self.keys_from is None, self.virtual_tokens or 0
        E, U, K = self.width_of_head(width), self.width_of_value(width), self.groups
        axes: tuple[Dimension, ...] = ((("kv_heads", K),), (), ())
        virtual = (
            {name: Weight((K, P, of), "column", "matrix", axes=axes) for name, of in zip(VIRTUAL, (E, U), strict=True)}
            if P
            else {}
        )
        position = shape.batch * K * (E + U) * plan.activation_bytes
        held = position * self.mask.cache_length(shape.cache_length) if own else 0
        state = State.of(shape, held, position * self.mask.pairs(shape), K)
        inner = {} if self.score_bias is None else {"score_bias": self.score_bias.cost(self, width, shape)}
        inner |= {} if self.exclusive is None else {"exclusive": self.exclusive.cost(self.heads)}
        inner |= {} if self.joined is None else {"joined": self.joined.cost(width, rows)}
        features = 0 if self.rotary is None else self.rotary.rotated(E) * (self.heads + (K if own else 0))
        rotary: Mapping[str, Operation] = {"rotary": rotated(rows * features)} if features else {}
        pairs = shape.length * P
        return (
            self.projections(width, rows, rows, own_keys=own)
            + self.products(width, shape, shape.length * shape.keys + pairs, self.mask.pairs(shape) + pairs)
            + Tally(virtual, rotary, state, self.limits)
            + total(inner)
        )

    @property
    def traits(self) -> Traits:
        positions = ["RoPE"] if self.rotary is not None else []
        positions += [self.score_bias.position_name] if self.score_bias is not None else []
        techniques: dict[str, Value | None] = {
            "query temperature": self.temperature, "value residual": self.value_residual, "exclusive": self.exclusive,
        }  # fmt: skip
        return Traits(
            "MHA" if self.groups == self.heads else "MQA" if self.groups == 1 else "GQA",
            "+".join(positions) or "NoPE",
            stability=(*super().traits.stability, *(name for name, part in techniques.items() if part is not None)),
        )

    @property
    def reads(self) -> tuple[Read, ...]:
        reads = [Read(SCORE_BIAS, size=self.heads, required=False), *(self.score_bias.reads if self.score_bias else ())]
        if self.keys_from is not None:
            reads.append(Read(MEMORY, self.keys_from, size=self.groups, state=True))
        if self.value_residual is not None:
            reads.append(Read(VALUES, self.value_residual.variant, size=self.groups))
        return (*reads, *((self.joined.read,) if self.joined is not None else ()))

    @property
    def leaves(self) -> Mapping[str, int]:
        return {MEMORY: self.groups, VALUES: self.groups} if self.keys_from is None else {}

    @property
    def masks(self) -> tuple[Mask, ...]:
        return (self.mask,)

    def gathers(self, width: int) -> int | None:
        own = 0 if self.keys_from is not None else self.groups * (self.width_of_head(width) + self.width_of_value(width))
        return own if self.joined is None else None

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Contracts that this attention breaks by its mathematics."""
        return (*self.mask.limits, *(self.rotary.limits if self.rotary else ()))

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> FullState | RingState | None:
        """A ring for a mask with a window, else every position: B * K * min(window, C) * (E + U) elements; None if shared."""
        if self.keys_from is not None:
            return None
        length = self.mask.cache_length(capacity)
        key, value = (
            torch.zeros(batch, self.groups, length, features, dtype=dtype, device=device)
            for features in (self.width_of_head(width), self.width_of_value(width))
        )
        return FullState(key, value) if length == capacity else RingState(key, value)


class Attention(SelfAttention):
    """Self-attention: softmax(q k^T * scale where mask) v, heads side by side, then the output projection.

    q = x W_q: (B, T, H, E); k, v = x W_k, x W_v: (B, T, K, E); query head h reads kv head h // (H / K). Multi-head:
    Vaswani et al. 2017 (arXiv 1706.03762), multi-query: Shazeer 2019 (1911.02150), grouped: Ainslie et al. 2023 (2305.13245).
    The papers' d_model is D, d_k and d_v are E, h is H.
    """

    kind: Literal["attention"] = "attention"

    def narrowed(self, width: int, ways: int) -> Self | None:
        # A score bias is made for all heads.
        return self.of_heads(width, ways) if self.score_bias is None else None

    def layout(self, width: int) -> Layout:
        own = self.keys_from is None and self.values == "own"
        beyond = {
            "bias": bool({"query", "key", "value"} & set(self.bias)), "qk_norm": self.qk_norm, "value_norm": self.value_norm,
            "clip": self.clip, "softcap": self.softcap, "sink": self.sink, "sub_norm": self.sub_norm,
            "score_bias": self.score_bias, "temperature": self.temperature, "virtual_tokens": self.virtual_tokens,
            "value_residual": self.value_residual, "exclusive": self.exclusive, "joined": self.joined, "lora": self.lora,
            "dropout": self.dropout,
        }  # fmt: skip
        heads = HeadsLayout(
            self.heads, self.groups, self.width_of_head(width), self.width_of_value(width), self.scale_of(width),
            self.value_scale, self.rotary, "query.weight", "key.weight", "value.weight", "output.weight",
            tuple(name for name, given in beyond.items() if given),
        )  # fmt: skip
        return Layout(heads=heads if own else None)


VIRTUAL = ("virtual_key", "virtual_value")


class AttentionModule(HeadsModule):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, attention: SelfAttention, width: int, plan: Plan, name: str) -> None:
        own = attention.keys_from is None
        super().__init__(attention, width, plan, name, mask=attention.mask, own_keys=own)
        self.attention = attention
        self.rotary = Digested.of(attention.rotary) if attention.rotary else None
        self.score_bias = attention.score_bias.build(attention, width) if attention.score_bias else None
        self.exclusive = attention.exclusive.build(attention.heads) if attention.exclusive else None
        self.joined = attention.joined.build(width) if attention.joined else None
        if attention.virtual_tokens is not None:
            for vector, features in zip(VIRTUAL, (self.head_width, self.value_width), strict=True):
                shape = (attention.groups, attention.virtual_tokens, features)
                self.register_parameter(vector, nn.Parameter(torch.empty(shape)))

    def forward(self, x_BTD: Tensor, context: Context, state: FullState | RingState | None = None) -> Tensor:
        if self.joined is not None:
            x_BTD = self.joined(x_BTD, context)
        q = self._placed(self.queries(x_BTD, context), self.query_norm, context)
        if self.attention.temperature is not None:
            q = q * self.attention.temperature.factor(context.positions)[..., None, None].to(q.dtype)
        q = q.transpose(1, 2)
        own_BTKU = None
        if self.attention.keys_from is not None:
            memory = context.shared[self.attention.keys_from, MEMORY]
        else:
            memory, own_BTKU = self._remember(x_BTD, context, state)
        bias = self._bias(q, memory, context)
        banded = bias is None and self.attention.virtual_tokens is None and not self.drops
        k, v, visible = memory.key, memory.value, self.visible(x_BTD, context, memory.keys, banded=banded)
        if self.attention.virtual_tokens is not None:
            k, v = (
                torch.cat([getattr(self, name).to(x.dtype).expand(len(x), -1, -1, -1), x], 2)
                for name, x in zip(VIRTUAL, (k, v), strict=True)
            )
            visible = visible.after(self.attention.virtual_tokens, x_BTD.shape[1], x_BTD.device)
            bias = None if bias is None else nn.functional.pad(bias, (self.attention.virtual_tokens, 0))
        return self.mix(x_BTD, q, k, v, visible, context, bias, own_BTKU)

    def _remember(self, x_BTD: Tensor, context: Context, state: FullState | RingState | None) -> tuple[Memory, Tensor]:
        """This layer's keys and values with those of its state, which it leaves for the layers that read them; the values of
        this call's tokens (B, T, K, U)."""
        k, v = self.keys_and_values(x_BTD, context)
        residual = self.attention.value_residual
        if residual is not None:
            v = residual.own * v + residual.other * context.shared[residual.variant, VALUES]
        if context.variant is not None:
            context.leave(VALUES, v)
        own_BTKU = v
        k, v = (context.gathered(x).transpose(1, 2) for x in (self._placed(k, self.key_norm, context), v))
        keys = context.keys
        if state is not None:
            assert context.chunk is not None, "a stack with state enters its chunk first"
            k, v, keys = state.extend(k, v, context.chunk)
        memory = Memory(k, v, keys)
        if context.variant is not None:
            context.leave(MEMORY, memory)
        return memory, own_BTKU

    def _bias(self, q_BHTE: Tensor, memory: Memory, context: Context) -> Tensor | None:
        """The bias of the scores: the stack's, computed once for equal keys, plus this layer's own."""
        shared = context.shared.get((None, SCORE_BIAS))
        bias: Tensor | None = None
        if shared is not None:
            bias = context.once((SCORE_BIAS, memory.keys.label), lambda: shared(q_BHTE, memory, context, None))
        if self.score_bias is None:
            return bias
        own: Tensor = self.score_bias(q_BHTE, memory, context, self)
        return own if bias is None else bias + own

    def _placed(self, x_BTHE: Tensor, norm: torch.nn.Module, context: Context) -> Tensor:
        """Queries or keys rotated by position, and then normalised if `qk_norm` comes after the rotation."""
        if self.rotary is not None:
            table = context.rotary(self.rotary, self.head_width, x_BTHE.dtype)
            x_BTHE = self.rotary.value.rotate(x_BTHE, table)
        return norm(x_BTHE) if self.heads.norms_late else x_BTHE
