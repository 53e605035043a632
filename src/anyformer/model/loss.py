"""Cross-entropy of logits, as every training step computes it; also of logits of which a process has some tokens' or some
positions'."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor

from anyformer.model.cross_entropy import CrossEntropy
from anyformer.model.divided import is_divided

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

    from anyformer.model.collectives import Group


def token_losses(logits_BTV: Tensor, targets_BT: Tensor) -> tuple[Tensor, Tensor]:
    """Negative log-likelihood -log softmax(logits)[target] and log Z, (B, T) each, in fp32.

    Z is the softmax's denominator. The likelihood of a negative target, where there is nothing to predict, counts as 1.
    """
    if by_positions(logits_BTV):
        from anyformer.model.collectives import own

        targets = own(targets_BT, group_of(logits_BTV))
        found = torch.stack(token_losses(_of_own_positions(logits_BTV), targets), -1)
        losses, log_z = _at_all_positions(found, logits_BTV).unbind(-1)
        return losses, log_z
    targets = targets_BT.clamp(min=0)
    if is_divided(logits_BTV):
        losses, log_z = _of_parts(logits_BTV, targets)
    elif torch.compiler.is_compiling():  # A compiler makes one loop of it, and fuses that with what is around.
        logits = logits_BTV.float()
        log_z = torch.logsumexp(logits, -1)
        losses = log_z - logits.gather(-1, targets[..., None])[..., 0]
    else:
        losses, log_z = CrossEntropy.apply(logits_BTV, targets)  # type: ignore[no-untyped-call]
    return torch.where(targets_BT < 0, 0.0, losses), log_z


def mean_logits(logits_BTV: Tensor) -> Tensor:
    """The mean of the logits over the vocabulary, (B, T), in fp32."""
    if not is_divided(logits_BTV):
        return logits_BTV.float().mean(-1)
    if by_positions(logits_BTV):
        return _at_all_positions(mean_logits(_of_own_positions(logits_BTV)), logits_BTV)
    from anyformer.model.collectives import added_up

    own = logits_BTV.to_local().float()
    return added_up(own.sum(-1), group_of(logits_BTV)) / logits_BTV.shape[-1]


def likeliest(logits_BTV: Tensor) -> Tensor:
    """The token with the largest logit, (B, T); the first of equal ones."""
    if not is_divided(logits_BTV):
        return logits_BTV.argmax(-1)
    if by_positions(logits_BTV):
        return _at_all_positions(likeliest(_of_own_positions(logits_BTV)), logits_BTV)
    from anyformer.model.collectives import largest

    own, group = logits_BTV.to_local(), group_of(logits_BTV)
    value, token = own.max(-1)
    best = largest(value, group)
    # The first of equal ones is the largest of the negated numbers.
    token = torch.where(value == best, token + group.rank * own.shape[-1], logits_BTV.shape[-1])
    return -largest(-token, group)


def by_positions(logits_BTV: Tensor) -> TypeGuard[DTensor]:
    """Whether this process has the logits of some positions; those of all tokens, or of some."""
    return is_divided(logits_BTV) and logits_BTV.placements[0].is_shard(1) and logits_BTV.dim() > 2


def group_of(logits: DTensor) -> Group:
    """The processes that divide logits, by positions where they do both."""
    from anyformer.model.collectives import Group

    return Group.of(logits.device_mesh.get_group(0))


def _of_own_positions(logits_BTV: DTensor) -> Tensor:
    """The logits of this process's positions, of which the processes of another dimension may divide the tokens."""
    mesh, (_, *tokens) = logits_BTV.device_mesh, logits_BTV.placements
    if not tokens:
        return logits_BTV.to_local()
    assert mesh.mesh_dim_names is not None, "it is a part of the run's"
    return type(logits_BTV).from_local(logits_BTV.to_local(), mesh[mesh.mesh_dim_names[1]], tokens, run_check=False)


def _at_all_positions(x: Tensor, logits_BTV: DTensor) -> Tensor:
    """x, (B, T, ...), at the positions of all processes: numbers per position travel, and no logits."""
    from anyformer.model.collectives import gathered

    return gathered(x, logits_BTV.shape[1], group_of(logits_BTV))


def _of_parts(logits_BTV: DTensor, targets_BT: Tensor) -> tuple[Tensor, Tensor]:
    """The loss and log Z, (B, T): three numbers per position travel, and no logits."""
    from anyformer.model.collectives import added_up, largest

    own, group = logits_BTV.to_local().float(), group_of(logits_BTV)
    most = largest(own.amax(-1), group)
    log_z = most + added_up((own - most[..., None]).exp().sum(-1), group).log()
    target = targets_BT - group.rank * own.shape[-1]
    mine = (target >= 0) & (target < own.shape[-1])
    chosen = own.gather(-1, (target * mine)[..., None])[..., 0] * mine
    return log_z - added_up(chosen, group), log_z
