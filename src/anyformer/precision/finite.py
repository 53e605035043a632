"""NaN and infinities among the numbers of a tensor, found in one pass at the rate at which memory is read."""

from __future__ import annotations

import torch
from torch import Tensor

from anyformer.describe import UserError

AT_ONCE = 1 << 20
"""Numbers of 8 bits that are widened at once."""


def check_finite(numbers: Tensor, where: str, error: type[UserError]) -> None:
    """Raise `error`, which says `where`, for a tensor with a NaN or an infinity: every answer computed with it is lost."""
    if numbers.is_floating_point() and numbers.numel() and not numbers.is_meta and not _finite(numbers):
        numbers = numbers.float() if numbers.itemsize == 1 else numbers
        bad = ~numbers.isfinite()
        first = [int(axis[0]) for axis in bad.nonzero(as_tuple=True)]
        raise error(
            f"{where}: not finite, {int(bad.sum()):,} of {numbers.numel():,} numbers, the first {float(numbers[tuple(first)])} "
            f"at {first}: nothing can be computed with them; take a whole copy of the weights, or an earlier checkpoint"
        )


def _finite(numbers: Tensor) -> bool:
    """Whether all are. The smallest and the largest are NaN where any is: `isfinite` would take fifty times as long."""
    pieces = torch.split(numbers.flatten(), AT_ONCE) if numbers.itemsize == 1 else (numbers,)
    extremes = (torch.stack(torch.aminmax(piece.bfloat16() if piece.itemsize == 1 else piece)) for piece in pieces)
    return all(bool(each.isfinite().all()) for each in extremes)
