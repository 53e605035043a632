"""The values of attention that are seen while it is computed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.opened import OpenedPart


def shown_to(opened: OpenedPart | None) -> OpenedPart | None:
    """Who asks for scores or weights; None: nobody, so that a kernel may keep them to itself."""
    return opened if opened is not None and opened.wants("scores", "weights") else None


def by_position(mixed_BHTU: Tensor, context: Context) -> Tensor:
    """The mixed heads, seen position by position, (B, T, H, U)."""
    return mixed_BHTU if context.opened is None else context.see("mixed", mixed_BHTU.transpose(1, 2)).transpose(1, 2)


def put_out(output: nn.Module, heads_BTHU: Tensor, context: Context) -> Tensor:
    """The output projection of heads side by side, (B, T, D); where its parts are asked for, as the sum of those of each head.

    It is a linear map and a bias, so the part of a head is what it gives of this head alone, less what it gives of none.
    """
    heads_BTHU = context.see("heads", heads_BTHU)
    if not context.wants("head_outputs"):
        return output(heads_BTHU.flatten(2))  # type: ignore[no-any-return]
    none_BTD = output(torch.zeros_like(heads_BTHU).flatten(2))
    number = torch.arange(heads_BTHU.shape[2], device=heads_BTHU.device)[:, None]
    alone = (torch.where(number == head, heads_BTHU, 0) for head in range(heads_BTHU.shape[2]))
    parts_BTHD = torch.stack([output(each.flatten(2)) - none_BTD for each in alone], 2)
    return context.see("head_outputs", parts_BTHD).sum(2) + none_BTD  # type: ignore[no-any-return]


def scores_seen(scores_BHTS: Tensor, allowed: Tensor | None, shown: OpenedPart) -> Tensor:
    """Scores, seen as -inf where a key is not `allowed`, whatever stands there afterwards."""
    if allowed is None:
        return shown.see("scores", scores_BHTS)
    seen_BHTS = shown.see("scores", scores_BHTS.masked_fill(~allowed, float("-inf")))
    return torch.where(allowed, seen_BHTS, scores_BHTS)
