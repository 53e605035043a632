"""The module of PaTH attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.describe import Digested
from anyformer.parts.attention.named_values_module import put_out
from anyformer.parts.call.context import Context
from anyformer.parts.call.state import Keys
from anyformer.parts.masks.mask import Mask
from anyformer.parts.masks.simple import Causal
from anyformer.parts.recurrence.convolved_projections_module import unit_length
from anyformer.parts.recurrence.path import path_chunk, path_scores, path_step
from anyformer.parts.recurrence.path_attention import PathAttention
from anyformer.parts.recurrence.path_state import PathState
from anyformer.parts.recurrence.recurrence import exact, exactly
from anyformer.parts.recurrence.recurrent_heads_module import heads_first, split_heads, time_first, zero_on_padding
from anyformer.plan import Plan

CAUSAL: Digested[Mask] = Digested.of(Causal())


class PathAttentionModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, part: PathAttention, width: int, plan: Plan) -> None:
        super().__init__()
        self.part, self.chunk, self.scale = part, plan.chunk, part.scale_of(width)
        E, H, K = part.width_of_head(width), part.heads, part.groups
        self.query, self.key, self.value = (nn.Linear(width, n * E, bias=False) for n in (H, K, K))
        self.direction_down = nn.Linear(width, part.rank, bias=False) if part.rank else nn.Identity()
        self.direction = nn.Linear(part.rank or width, K * E, bias=False)
        self.direction_convolution = part.convolution.build(K * E) if part.convolution else None
        self.beta = nn.Linear(width, K)
        self.query_norm, self.key_norm = (part.qk_norm.build(E) if part.qk_norm else nn.Identity() for _ in range(2))
        self.output = nn.Linear(H * E, width, bias=False)

    def extra_repr(self) -> str:
        return f"heads={self.part.heads}, kv_heads={self.part.groups}"

    def forward(self, x_BTD: Tensor, context: Context, state: PathState | None = None) -> Tensor:
        H, K = self.part.heads, self.part.groups
        query = context.see("query", self.query_norm(split_heads(self.query(x_BTD), H)))
        key = context.see("key", self.key_norm(split_heads(self.key(x_BTD), K)))
        value = context.see("value", split_heads(self.value(x_BTD), K))
        direction = self.direction(self.direction_down(x_BTD))
        if self.direction_convolution is not None:
            direction = self.direction_convolution(direction, context, None if state is None else state.recent)
        direction = context.see("direction", split_heads(direction, K))
        mixed_BTHE = self.mixed(query, key, value, direction, self.beta(x_BTD), context=context, state=state)
        return put_out(self.output, context.see("mixed", mixed_BTHE.to(x_BTD.dtype)), context)

    def mixed(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        direction: Tensor,
        beta: Tensor,
        *,
        context: Context,
        state: PathState | None = None,
    ) -> Tensor:
        """The values that each head mixed (B, T, H, E) in fp32 at least; beta (B, T, K) before its sigmoid."""
        K = self.part.groups
        # Padding reflects nothing.
        (beta_BTK,) = zero_on_padding(context, context.see("beta", 2 * exact(beta).sigmoid()))
        with exactly(query):
            w = unit_length(exact(direction), self.part.length_eps)
            q, k, v, w, b = (heads_first(exact(y), K) for y in (query, key, value, w, beta_BTK[..., None]))
            scores, values, keys = self._scored(q, k, v, w, b, context, state)
            allowed = context.visible(CAUSAL, keys).dense(q.shape[-2], q.device)
            if allowed is not None:
                scores = scores.masked_fill(~allowed[:, :, None], -torch.inf)
            return time_first((scores * self.scale).softmax(-1) @ values)

    def _scored(
        self, q: Tensor, k: Tensor, v: Tensor, w: Tensor, beta: Tensor, context: Context, state: PathState | None
    ) -> tuple[Tensor, Tensor, Keys]:
        """Scores (B, K, G, T, S), values (B, K, 1, S, E), and the positions of the keys; the state takes over this call's."""
        if state is None:
            return path_scores(q, k, w, beta, chunk=self.chunk), v, context.keys
        assert context.chunk is not None, "a stack with state enters its chunk first"
        slots, before = context.chunk.slots, state.seen(context.chunk)[:, :, None].to(q.dtype)
        if q.shape[-2] == 1:
            scores, after = path_step(q, k, w, beta, before, slots)
        else:
            scores, after = path_chunk(q, k, w, beta, before, slots, chunk=self.chunk)
        values, keys = state.hold(after[:, :, 0], v[:, :, 0], context.chunk)
        return scores, values[:, :, None].to(q.dtype), keys
