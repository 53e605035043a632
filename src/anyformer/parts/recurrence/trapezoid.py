"""Linear recurrences by the trapezoidal rule: a token is written in part with its own step, in part with the next one's.

    S_t = exp(g_t) (S_{t-1} + before_t k_{t-1} v_{t-1}^T) + own_t k_t v_t^T,    o_t = q_t^T S_t

From t + 1 on, token t is in the state with the weight own_t + before_{t+1}; at t itself, with own_t. So it is one
`linear_recurrence` of that weight, less what a token's own query would see of the next one's step (arXiv 2603.15569).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.parts.call.context import Context
from anyformer.parts.recurrence.recurrence import linear_recurrence
from anyformer.parts.recurrence.recurrent_heads_module import heads_first, time_first


def trapezoidal_recurrence(
    q: Tensor, k: Tensor, v: Tensor, own: Tensor, before: Tensor, log_decay: Tensor, state: Tensor | None, context: Context,
    *, chunk: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The outputs (B, T, H, E) and the state (B, H, 1, M, E) after them, in which the last token has its own weight alone.

    q, k (B, T, H, M), v (B, T, H, E); own, before, log-decay (B, T, H), 0 on padding; `state`: with what the first token of
    this call writes of the one before.
    """
    H = q.shape[2]
    later = following(before, context)[:, 1:]
    mixed, state = linear_recurrence(
        heads_first(q, H),
        heads_first(k * (own + later)[..., None], H),
        heads_first(v, H),
        heads_first(log_decay[..., None], H),
        state,
        chunk=chunk,
        segments=context.segments,
    )
    return time_first(mixed) - (later * (q * k).sum(-1))[..., None] * v, state


def following(x_BTH: Tensor, context: Context) -> Tensor:
    """x of the first token, then of the one that follows each position in its document: (B, T, H) -> (B, 1 + T, H).

    0 where none follows, and on padding, which is passed over.
    """
    length, valid, segments = x_BTH.shape[1], context.valid, context.segments
    padded = F.pad(x_BTH, (0, 0, 0, 1))
    place = torch.arange(length + 1, device=x_BTH.device)[None]
    if valid is not None:
        token = torch.where(valid.expand(len(x_BTH), -1), place[:, :-1], length)
        place = F.pad(token, (0, 1), value=length).flip(1).cummin(1).values.flip(1)
        padded = padded.gather(1, place[..., None].expand_as(padded))
        padded = padded.masked_fill(F.pad(~valid, (1, 0))[..., None], 0)
    if segments is not None:
        place = place.expand(len(segments), -1).clamp(max=length - 1)
        other = segments.gather(1, place[:, 1:]) != segments
        padded = padded.masked_fill(F.pad(other, (1, 0))[..., None], 0)
    return padded


def latest(x_BTW: Tensor, held: Tensor, context: Context) -> Tensor:
    """x of the last token, of `held` (B, 1, W) if there is none: (B, T, W) -> (B, 1, W)."""
    if context.valid is None:
        return x_BTW[:, -1:]
    place = torch.arange(1, x_BTW.shape[1] + 1, device=x_BTW.device)
    last = (context.valid * place).amax(1).expand(len(x_BTW))
    return torch.cat([held, x_BTW], 1).gather(1, last[:, None, None].expand(-1, 1, x_BTW.shape[2]))
