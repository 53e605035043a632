"""Penalties on routing: losses that are small where experts share the tokens evenly, or where logits stay small."""

from __future__ import annotations

import torch
from torch import Tensor


def picked(chosen_ZJ: Tensor, experts: int) -> Tensor:
    """(Z, J) experts -> (Z, X): true where a token chose an expert."""
    return (chosen_ZJ[..., None] == torch.arange(experts, device=chosen_ZJ.device)).any(1)


def balance_loss(probabilities_ZX: Tensor, picked_ZX: Tensor, counted_Z: Tensor) -> Tensor:
    """X * sum over experts of f_e * P_e: f_e the share of tokens that chose e, P_e their mean probability of e;
    `experts.router.chosen` of a layer, which can be watched, holds what they chose.

    Means over the tokens that count. k at perfect balance; X if all tokens go to one expert with certainty, k = 1 (GShard,
    arXiv 2006.16668; Switch Transformer, arXiv 2101.03961, equation 4, for k = 1). Only P has a gradient.
    """
    tokens = counted_Z.sum().clamp(min=1)
    f_X = (picked_ZX & counted_Z[:, None]).sum(0) / tokens
    p_X = (probabilities_ZX * counted_Z[:, None]).sum(0) / tokens
    return len(f_X) * (f_X * p_X).sum()


def sequence_balance_loss(probabilities_BTX: Tensor, picked_BTX: Tensor, counted_BT: Tensor, chosen: int) -> Tensor:
    """Mean over sequences of X / k * sum over experts of f_e * P_e, f and P as in `balance_loss` over one sequence's tokens.

    1 at perfect balance (DeepSeek-V2, arXiv 2405.04434, equations 23 to 25; DeepSeek-V3, arXiv 2412.19437, 17 to 20). Each
    sequence is weighted by its number of tokens, so that micro-batches do not change the loss.
    """
    n_B = counted_BT.sum(1)
    f_BX = (picked_BTX & counted_BT[..., None]).sum(1) / n_B.clamp(min=1)[:, None]
    p_BX = (probabilities_BTX * counted_BT[..., None]).sum(1) / n_B.clamp(min=1)[:, None]
    loss_B = f_BX.shape[1] / chosen * (f_BX * p_BX).sum(1)
    return (loss_B * n_B).sum() / n_B.sum().clamp(min=1)


def router_z_loss(logits_ZX: Tensor, counted_Z: Tensor) -> Tensor:
    """Mean over the tokens that count of log(sum of exp(logits))^2: keeps logits small (ST-MoE, arXiv 2202.08906, eq. 5)."""
    return (torch.logsumexp(logits_ZX, -1).square() * counted_Z).sum() / counted_Z.sum().clamp(min=1)
