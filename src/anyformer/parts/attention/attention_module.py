"""The module of self-attentions over heads: positions, decode state, biases of the scores, what stands beside the heads."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.attention.heads_module import HeadsModule
from anyformer.parts.attention.score_bias import SCORE_BIAS
from anyformer.parts.attention.self_attention import VIRTUAL, SelfAttention
from anyformer.parts.call.annotated_state import AnnotatedState
from anyformer.parts.call.context import Context, Digested, Memory
from anyformer.parts.call.ring_state import RingState
from anyformer.parts.call.shared import MEMORY, VALUES
from anyformer.parts.call.state import FullState
from anyformer.plan import Plan


class AttentionModule(HeadsModule):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, attention: SelfAttention, width: int, plan: Plan, name: str) -> None:
        own = attention.keys_from is None
        super().__init__(attention, width, plan, name, mask=attention.mask, own_keys=own)
        self.attention = attention
        self.rotary = Digested.of(attention.rotary) if attention.rotary else None
        self.score_bias = attention.score_bias.build(attention, width) if attention.score_bias else None
        self.forget = attention.forget.build(attention.inputs(width), attention.heads) if attention.forget else None
        embedding, inputs = attention.value_embedding, attention.inputs(width)
        self.value_embedding = embedding.build(inputs, attention.groups, self.value_width) if embedding else None
        self.exclusive = attention.exclusive.build(attention.heads) if attention.exclusive else None
        self.value_convolution = attention.value_convolution.build(attention.groups) if attention.value_convolution else None
        self.convolution = attention.convolution.build(attention, width) if attention.convolution else None
        self.joined = attention.joined.build(width) if attention.joined else None
        if attention.virtual_tokens is not None:
            for vector, features in zip(VIRTUAL, (self.head_width, self.value_width), strict=True):
                shape = (attention.groups, attention.virtual_tokens, features)
                self.register_parameter(vector, nn.Parameter(torch.empty(shape)))

    def forward(self, x_BTD: Tensor, context: Context, state: FullState | RingState | None = None) -> Tensor:
        alone, other = x_BTD, self.attention.keys_from  # of D features, where those joined to another stream have 2 D
        x_BTD = x_BTD if self.joined is None else self.joined(x_BTD, context)
        queries = self.queries(x_BTD, context)
        beside = None if self.convolution is None else self.convolution(alone, queries, context)
        q = self.placed(queries, context)
        memory, own_BTKU = (context.shared[other, MEMORY], None) if other else self.remember(x_BTD, context, state)
        bias = self.bias_of_scores(q, memory, context, x_BTD)
        if self.forget is not None:
            assert state is None or isinstance(state, AnnotatedState), "made by the description"
            forgotten: Tensor = self.forget(x_BTD, context, state)
            bias = forgotten if bias is None else bias + forgotten
        banded = bias is None and self.attention.virtual_tokens is None and not self.drops
        k, v, visible = memory.key, memory.value, self.visible(x_BTD, context, memory.keys, banded=banded)
        if self.attention.virtual_tokens is not None:
            k, v = (
                torch.cat([getattr(self, name).to(x.dtype).expand(len(x), -1, -1, -1), x], 2)
                for name, x in zip(VIRTUAL, (k, v), strict=True)
            )
            visible = visible.after(self.attention.virtual_tokens, x_BTD.shape[1], x_BTD.device)
            bias = None if bias is None else nn.functional.pad(bias, (self.attention.virtual_tokens, 0))
        return self.mix(x_BTD, q, k, v, visible, context, bias, own_BTKU, beside)

    def placed(self, q_BTHE: Tensor, context: Context) -> Tensor:
        """The queries rotated by position and times their temperature, (B, H, T, E)."""
        q = self._placed(q_BTHE, self.query_norm, context)
        if self.attention.temperature is not None:
            q = q * self.attention.temperature.factor(context.positions)[..., None, None].to(q.dtype)
        return q.transpose(1, 2)

    def remember(self, x_BTD: Tensor, context: Context, state: FullState | RingState | None) -> tuple[Memory, Tensor]:
        """This layer's keys and values with those of its state, which it leaves for the layers that read them; the values of
        this call's tokens (B, T, K, U)."""
        k, v = self.keys_and_values(x_BTD, context)
        if self.value_embedding is not None:
            v = self.value_embedding(v, x_BTD, context)
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

    def bias_of_scores(self, q_BHTE: Tensor, memory: Memory, context: Context, x_BTD: Tensor) -> Tensor | None:
        """The bias of the scores: the stack's, computed once for equal keys, plus this layer's own."""
        shared = context.shared.get((None, SCORE_BIAS))
        bias: Tensor | None = None
        if shared is not None:
            bias = context.once((SCORE_BIAS, memory.keys.label), lambda: shared(q_BHTE, memory, context, None, x_BTD))
        if self.score_bias is None:
            return bias
        own: Tensor = self.score_bias(q_BHTE, memory, context, self, x_BTD)
        return own if bias is None else bias + own

    def _placed(self, x_BTHE: Tensor, norm: torch.nn.Module, context: Context) -> Tensor:
        """Queries or keys rotated by position, and then normalised if `qk_norm` comes after the rotation."""
        x_BTHE = context.rotated(x_BTHE, self.rotary)
        return norm(x_BTHE) if self.heads.norms_late else x_BTHE
