"""Cross-entropy of logits, as every training step computes it."""

from __future__ import annotations

import torch
from torch import Tensor


def token_losses(logits_BTV: Tensor, targets_BT: Tensor) -> tuple[Tensor, Tensor]:
    """Negative log-likelihood -log softmax(logits)[target] and log Z, (B, T) each, in fp32.

    Z is the softmax's denominator. The likelihood of a negative target, where there is nothing to predict, counts as 1.
    """
    logits = logits_BTV.float()
    log_z = torch.logsumexp(logits, -1)
    chosen = logits.gather(-1, targets_BT.clamp(min=0)[..., None])[..., 0]
    return torch.where(targets_BT < 0, 0.0, log_z - chosen), log_z
