"""The module of gated slot attention, and its recurrence over slots.

Shapes: q (B, K, G, T, M), k (B, K, 1, T, M), v (B, K, 1, T, E), the log-decays of slots (B, K, 1, T, n), the slots (B, K, 1, n,
M + E): keys beside values, which decay alike.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.attention.named_values_module import put_out
from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import RecurrentState, hold
from anyformer.parts.recurrence.carried import carried
from anyformer.parts.recurrence.convolved_projections_module import ConvolvedProjections
from anyformer.parts.recurrence.gated_slot_attention import GatedSlotAttention
from anyformer.parts.recurrence.recurrence import decayed, exact, exactly, factors, folded
from anyformer.parts.recurrence.recurrent_heads_module import heads_first, split_heads, time_first, zero_on_padding
from anyformer.plan import Plan


class GatedSlotAttentionModule(ConvolvedProjections):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, part: GatedSlotAttention, width: int, plan: Plan) -> None:
        super().__init__(part.widths, width, part.convolution)
        self.part, self.chunk, H, E = part, plan.chunk, part.heads, part.columns
        self.counts = dict(zip(part.widths, (H, part.groups, part.groups), strict=True))
        self.forget = nn.Linear(width, part.groups * part.slots, bias=False)
        self.norm = part.norm.build(H * E) if part.norm else nn.Identity()
        self.output = nn.Linear(H * E, width, bias=False)

    def extra_repr(self) -> str:
        p = self.part
        return f"heads={p.heads}, kv_heads={p.groups}, widths={p.key_width}, {p.columns}, slots={p.slots}"

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        query, key, value = (F.silu(self.projected(name, x_BTD, n, context, state)) for name, n in self.counts.items())
        mixed_BTHE = self.recur(query, key, value, self.forget(x_BTD), context=context, state=state)
        heads = self.norm(F.silu(mixed_BTHE.flatten(2)))
        return put_out(self.output, split_heads(heads, self.part.heads), context)

    def recur(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        forget: Tensor,
        *,
        context: Context,
        state: RecurrentState | None = None,
    ) -> Tensor:
        """The mixed heads (B, T, H, E) of what was projected, heads side by side."""
        H, K = self.part.heads, self.part.groups
        with exactly(query):
            log_decay = context.see("log_decay", split_heads(F.logsigmoid(exact(forget)) / self.part.temperature, K))
            # Padding is written into no slot, and none forgets.
            (log_decay,) = zero_on_padding(context, log_decay)
            q = split_heads(exact(query), H) * self.part.scale
            k, v = (split_heads(exact(y), K) for y in (key, value))
            past = None if state is None else state.sums.to(q.dtype)
            q, k, v, log_decay = (heads_first(y, K) for y in (q, k, v, log_decay))
            mixed, slots = slot_recurrence(q, k, v, log_decay, past, chunk=self.chunk, segments=context.segments)
            hold(slots, state, context)
        return context.see("mixed", time_first(mixed).to(query.dtype))


def slot_recurrence(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, state: Tensor | None, *, chunk: int, segments: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The outputs (..., T, E) and the slots after them."""
    M, length, share = q.shape[-1], q.shape[-2], -torch.expm1(log_decay)
    both = torch.cat([k, v], -1)
    state = both.new_zeros(*both.shape[:-2], log_decay.shape[-1], both.shape[-1]) if state is None else state
    if length == 1:
        state = decayed(state, log_decay) + share.mT * both
        weights = (q @ state[..., :M].mT).softmax(-1)
        return weights @ state[..., M:], state
    f = factors(length, log_decay, segments, chunk, q)
    q_n, share_n, both_n = (folded(x, f.size) for x in (q, share, both))
    before, state = carried(f, (share_n * f.to_end).mT @ both_n, state)
    k_n, v_n = both_n[..., :M], both_n[..., M:]
    within = decayed_sums((q_n @ k_n.mT).masked_fill(~f.visible, 0), share_n, f.log_decay)
    weights = (within + (q_n @ before[..., :M].mT) * f.from_start).softmax(-1)
    mixed = f.products(weights, share_n) @ v_n + (weights * f.from_start) @ before[..., M:]
    return mixed.flatten(-3, -2)[..., :length, :], state


def decayed_sums(pairs: Tensor, x: Tensor, log_decay: Tensor) -> Tensor:
    """Sum over j <= i of pairs_ij x_j exp(log-decays after j up to i), by channel: (..., size, size), (..., size, n).

    As in `decayed_products`, blocks grow from the diagonal by doubling, so that each factor of decay is at most 1: the late
    half of a block gets what the early half left, by a factor to their border and one from there.
    """
    size = log_decay.shape[-2]
    sums = (pairs.diagonal(dim1=-2, dim2=-1)[..., None] * x)[..., None, :]
    before, after = log_decay[..., None, :], torch.zeros_like(log_decay)[..., None, :]
    x = x[..., None, :]
    while (width := sums.shape[-2]) < size:
        blocks = torch.unflatten(torch.unflatten(pairs, -2, (-1, 2, width)), -1, (-1, 2, width))
        low = blocks[..., 1, :, :, 0, :].diagonal(dim1=-4, dim2=-2).movedim(-1, -3)
        halves = (torch.unflatten(y, -3, (-1, 2)).unbind(-3) for y in (sums, x, before, after))
        (early, late), (x_early, x_late), (before_early, before_late), (after_early, after_late) = halves
        late = late + (low @ (x_early * after_early.exp())) * before_late.exp()
        sums, x = torch.cat([early, late], -2), torch.cat([x_early, x_late], -2)
        before = torch.cat([before_early, before_late + before_early[..., -1:, :]], -2)
        after = torch.cat([after_early + before_late[..., -1:, :], after_late], -2)
    return sums.squeeze(-3)
