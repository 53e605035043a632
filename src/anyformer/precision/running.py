"""Scales from the greatest magnitudes of the updates before: delayed scaling."""

from __future__ import annotations

import torch
from torch import Tensor

OPERANDS = ("input", "weight", "gradient")


class Running:
    """The greatest magnitude of each operand of one linear map in each of the last updates, (operands, history) in fp32.

    The scale of an update follows from the updates before it (NVIDIA's Transformer Engine, delayed scaling); of one that has
    none before it, from the operand itself. Within an update `seen` grows with each micro-batch.
    """

    def __init__(self, history: int) -> None:
        self.maxima = torch.zeros(len(OPERANDS), history, device="cpu")
        self.seen = torch.zeros(len(OPERANDS), device="cpu")

    def maximum(self, operand: str, greatest: Tensor, *, note: bool) -> Tensor:
        """The magnitude (0-d, fp32) that `operand` is scaled by; with `note` its own, `greatest`, counts for later updates."""
        if self.maxima.device != greatest.device:
            self.maxima, self.seen = self.maxima.to(greatest.device), self.seen.to(greatest.device)
        at = OPERANDS.index(operand)
        now = greatest.detach().float()
        if note:
            self.seen[at] = torch.maximum(self.seen[at], now)
        before = self.maxima[at].amax()
        return torch.where(before > 0, before, now)

    def begin(self) -> None:
        """Start an update: whatever was computed since the last one does not count."""
        self.seen.zero_()

    def end(self) -> None:
        """Put the update that was made in front of the history, and drop the oldest. Magnitudes that are no numbers, of an
        update that was skipped, do not count."""
        if self.seen.isfinite().all():
            self.maxima = torch.cat((self.seen[:, None], self.maxima[:, :-1]), 1)
