"""Cross-entropy of logits, as every training step computes it; also of logits of which each process has some tokens'."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anyformer.model.divided import is_divided

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def token_losses(logits_BTV: Tensor, targets_BT: Tensor) -> tuple[Tensor, Tensor]:
    """Negative log-likelihood -log softmax(logits)[target] and log Z, (B, T) each, in fp32.

    Z is the softmax's denominator. The likelihood of a negative target, where there is nothing to predict, counts as 1.
    """
    targets = targets_BT.clamp(min=0)
    if is_divided(logits_BTV):
        log_z, chosen = _of_parts(logits_BTV, targets)
    else:
        logits = logits_BTV.float()
        log_z = torch.logsumexp(logits, -1)
        chosen = logits.gather(-1, targets[..., None])[..., 0]
    return torch.where(targets_BT < 0, 0.0, log_z - chosen), log_z


def mean_logits(logits_BTV: Tensor) -> Tensor:
    """The mean of the logits over the vocabulary, (B, T), in fp32."""
    if not is_divided(logits_BTV):
        return logits_BTV.float().mean(-1)
    from anyformer.model.collectives import Group, added_up

    own = logits_BTV.to_local().float()
    return added_up(own.sum(-1), Group.of(logits_BTV.device_mesh.get_group())) / logits_BTV.shape[-1]


def likeliest(logits_BTV: Tensor) -> Tensor:
    """The token with the largest logit, (B, T); the first of equal ones."""
    if not is_divided(logits_BTV):
        return logits_BTV.argmax(-1)
    from anyformer.model.collectives import Group, largest

    own, group = logits_BTV.to_local(), Group.of(logits_BTV.device_mesh.get_group())
    value, token = own.max(-1)
    best = largest(value, group)
    # The first of equal ones is the largest of the negated numbers.
    token = torch.where(value == best, token + group.rank * own.shape[-1], logits_BTV.shape[-1])
    return -largest(-token, group)


def _of_parts(logits_BTV: DTensor, targets_BT: Tensor) -> tuple[Tensor, Tensor]:
    """log Z and the target's logit, (B, T): three numbers of each position travel, and no logits."""
    from anyformer.model.collectives import Group, added_up, largest

    own, group = logits_BTV.to_local().float(), Group.of(logits_BTV.device_mesh.get_group())
    most = largest(own.amax(-1), group)
    log_z = most + added_up((own - most[..., None]).exp().sum(-1), group).log()
    target = targets_BT - group.rank * own.shape[-1]
    mine = (target >= 0) & (target < own.shape[-1])
    chosen = own.gather(-1, (target * mine)[..., None])[..., 0] * mine
    return log_z, added_up(chosen, group)
