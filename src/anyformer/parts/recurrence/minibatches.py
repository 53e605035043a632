"""Mini-batches of the tokens of each row: b that follow one another in a document, padding left out."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class MiniBatches:
    """Places of T positions in `count` mini-batches of `size` tokens each, the last of which may not be whole."""

    length: int
    """T."""
    count: int
    size: int
    whole: Tensor
    """Which of them have b tokens, or have come to b, bool (B or 1, count, 1, 1, 1)."""
    slots: Tensor | None = None
    """The place of each position, (B, T); behind the last one for padding; None: in order."""
    first: Tensor | None = None
    """Which of them are the first of a document, as `whole`; None: the first of a row alone."""

    def folded(self, x: Tensor) -> Tensor:
        """(B, H, T, W) -> (B, H, count, size, W), zeros where there is no token."""
        places = self.count * self.size
        if self.slots is None:
            return torch.unflatten(F.pad(x, (0, 0, 0, places - self.length)), 2, (self.count, self.size))
        laid = x.new_zeros(*x.shape[:2], places + 1, x.shape[3])
        laid = laid.scatter(2, self.slots[:, None, :, None].expand(x.shape), x)
        return torch.unflatten(laid[:, :, :-1], 2, (self.count, self.size))

    def unfolded(self, x: Tensor) -> Tensor:
        """(B, H, count, size, W) -> (B, H, T, W), zeros on padding."""
        x = x.flatten(2, 3)
        if self.slots is None:
            return x[:, :, : self.length].contiguous()
        index = self.slots[:, None, :, None].expand(len(x), x.shape[1], -1, x.shape[3])
        return F.pad(x, (0, 0, 0, 1)).gather(2, index)


def minibatches(positions: Tensor | None, like: Tensor, minibatch: int) -> MiniBatches:
    """Of `like` (B, H, T, ...): tokens at `positions` (B, T) of their documents, padding below 0; None: rows in order.

    The first tokens of a row may go on with a mini-batch that began before it.
    """
    length = like.shape[2]
    if positions is None or positions.is_meta:
        size = min(minibatch, length)
        count = -(-length // size)
        whole = torch.arange(1, count + 1, device=like.device) * minibatch <= length
        return MiniBatches(length, count, size, whole[None, :, None, None, None])
    valid, place = positions >= 0, positions % minibatch
    number = (valid & (place == 0)).cumsum(1)
    count = int(number.max()) + 1
    slots = torch.where(valid, number * minibatch + place, count * minibatch)

    def marked(tokens: Tensor) -> Tensor:
        """The mini-batches that have one of these tokens."""
        marks = tokens.new_zeros(len(tokens), count + 1).scatter(1, torch.where(tokens, number, count), tokens)
        return marks[:, :-1, None, None, None]

    return MiniBatches(
        length, count, minibatch, marked(valid & (place == minibatch - 1)), slots, marked(valid & (positions == 0))
    )
