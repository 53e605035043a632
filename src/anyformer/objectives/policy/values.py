"""Advantages by the values of states, and the loss of the values."""

from __future__ import annotations

import torch
from torch import Tensor


def generalised_advantages(rewards_RT: Tensor, values_RT: Tensor, mask_RT: Tensor, discount: float, trace: float) -> Tensor:
    """(R, T): A_t = sum_k (g l)^k d_(t+k), d_t = r_t + g V_(t+1) - V_t, g = `discount`, l = `trace`; 0 where no token is
    sampled.

    V is 0 after the last sampled token. Steps are sampled tokens: what the environment writes between two of them is passed
    over (generalised advantage estimation, Schulman et al. 2016, arXiv 1506.02438, equation 16).
    """
    next_value_R = next_advantage_R = torch.zeros_like(values_RT[:, 0])
    found = list[Tensor]()
    for t in reversed(range(mask_RT.shape[1])):
        sampled_R, value_R = mask_RT[:, t], values_RT[:, t]
        difference_R = rewards_RT[:, t] + discount * next_value_R - value_R
        advantage_R = difference_R + discount * trace * next_advantage_R
        found.append(torch.where(sampled_R, advantage_R, 0.0))
        next_value_R = torch.where(sampled_R, value_R, next_value_R)
        next_advantage_R = torch.where(sampled_R, advantage_R, next_advantage_R)
    return torch.stack(found[::-1], 1)


def value_losses(values_RT: Tensor, old_RT: Tensor, returns_RT: Tensor, mask_RT: Tensor, within: float | None = None) -> Tensor:
    """(R, T): max((V - G)^2, (clip(V, V_old - e, V_old + e) - G)^2) / 2, e = `within`; the first alone without it; 0 where no
    token is sampled.

    `values_RT`: V, with a gradient; `old_RT`: V as the advantages were computed; `returns_RT`: G = A + V_old. The larger of
    both keeps V near V_old, as the clip of ratios does the policy (Schulman et al. 2017, arXiv 1707.06347, as its authors' code
    has it: Engstrom et al. 2020, arXiv 2005.12729, section 3).
    """
    losses_RT = (values_RT - returns_RT).square()
    if within is not None:
        near_RT = old_RT + (values_RT - old_RT).clamp(-within, within)
        losses_RT = torch.maximum(losses_RT, (near_RT - returns_RT).square())
    return torch.where(mask_RT, losses_RT / 2, 0.0)
