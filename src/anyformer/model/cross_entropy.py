"""Cross-entropy of whole rows of logits, a few rows at a time: no copy of all logits in fp32, forward or backward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from anyformer.model.loss_bytes import PIECE


class CrossEntropy(torch.autograd.Function):
    """-log softmax(z)[y] and log Z of logits z (..., V) and targets y (...), both (...) in fp32.

    The gradient of z is (softmax(z) - e_y) g + softmax(z) h for those of both outputs, g and h; it has the type of z.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        z, y = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)
        log_z = torch.empty(len(z), device=z.device)
        for rows in _pieces(z):
            log_z[rows] = z[rows].float().logsumexp(-1)
        chosen = z.gather(1, y[:, None])[:, 0].float()
        ctx.save_for_backward(logits, targets, log_z)
        return (log_z - chosen).view(targets.shape), log_z.view(targets.shape)

    @staticmethod
    def backward(ctx: Any, of_loss: Tensor, of_log_z: Tensor) -> tuple[Tensor, None]:
        logits, targets, log_z = ctx.saved_tensors
        z, y, g = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1, 1), of_loss.reshape(-1, 1)
        both, gradient = g + of_log_z.reshape(-1, 1), torch.empty_like(z)
        for rows in _pieces(z):
            gradient[rows] = _softmax(z[rows], log_z[rows]).mul_(both[rows]).scatter_add_(1, y[rows], -g[rows])
        return gradient.view(logits.shape), None


def _softmax(z: Tensor, log_z: Tensor) -> Tensor:
    """exp(z - log Z) in fp32, of some rows."""
    return (z.float() - log_z[:, None]).exp_()


def _pieces(z: Tensor) -> Iterator[slice]:
    """The rows in pieces of at most `PIECE` numbers, or of one row; all of a tensor without numbers, such as a price reads."""
    in_pieces = type(z) is Tensor and z.device.type in PIECE
    size = max(1, PIECE[z.device.type] // z.shape[1] if in_pieces else len(z))
    return (slice(start, start + size) for start in range(0, len(z), size))
