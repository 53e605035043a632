"""The places of tokens in their documents."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.parts.call.context import Context


def document_starts(segments: Tensor | None) -> Tensor | None:
    """The tokens with which another document begins than that of the token before, bool (B, T); never the first of a row."""
    return None if segments is None else F.pad(segments[:, 1:] != segments[:, :-1], (1, 0))


def places_in_documents(context: Context, *, goes_on: bool) -> Tensor:
    """The number of tokens of its document before every token, below 0 on padding, (B or 1, T), whatever positions are given.

    `goes_on`: with a state, whose positions are such numbers.
    """
    if goes_on or context.aligned:
        return context.positions
    return context.once("places in documents", lambda: _counted(context))


def _counted(context: Context) -> Tensor:
    valid, segments = context.valid, context.segments
    valid = torch.ones_like(context.positions, dtype=torch.bool) if valid is None else valid
    count = valid.long().cumsum(1)
    if segments is not None:
        begins = torch.ones_like(segments, dtype=torch.bool)
        begins[:, 1:] = segments[:, 1:] != segments[:, :-1]
        count = count - torch.where(begins, count - valid.long(), 0).cummax(1).values
    return torch.where(valid, count - 1, -1)
