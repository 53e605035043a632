"""The keys of a sliding window, query by query, whatever the order in which they stand."""

from __future__ import annotations

import torch
from torch import Tensor

from anyformer.parts.call.context import Context
from anyformer.parts.call.state import EMPTY, Keys


def window_slots(context: Context, keys: Keys, size: int) -> tuple[Tensor, Tensor]:
    """The places of the latest `size` keys up to each query, (B or 1, T, size), and which of them it sees.

    A padding query sees whatever stands there.
    """
    back = torch.arange(size - 1, -1, -1, device=context.positions.device)
    if context.aligned and keys.label == "self":
        at = torch.arange(context.positions.shape[1], device=back.device)[:, None] - back
        return at.clamp(min=0)[None], (at >= 0)[None]
    query, key = _numbers(context, keys)
    order = key.argsort(dim=1, stable=True)
    # Numbers of a row have no gaps, so its largest stands last and the others before it.
    at = key.shape[1] - 1 - (key.amax(1)[:, None, None] - query[..., None]) - back
    there, slots = at >= 0, order.gather(1, at.clamp(min=0).flatten(1)).view_as(at)
    seen = there & (_of(keys.positions, slots) != EMPTY)
    if context.documents is not None:
        seen = seen & (_of(context.documents, slots) == context.documents[..., None])
    return slots, seen | (context.positions == EMPTY)[..., None]


def _numbers(context: Context, keys: Keys) -> tuple[Tensor, Tensor]:
    """Numbers that count up along each row without gaps, of queries and keys; EMPTY for padding."""
    if keys.label != "self":
        return context.positions, keys.positions
    valid = keys.positions != EMPTY
    counted = torch.where(valid, valid.cumsum(1) - 1, EMPTY)
    return counted, counted


def _of(x_BS: Tensor, slots_BTm: Tensor) -> Tensor:
    return x_BS.expand(len(slots_BTm), -1).gather(1, slots_BTm.flatten(1)).view_as(slots_BTm)
