"""What a capacity of experts computes: which tokens have a place."""

from __future__ import annotations

import torch
from torch import Tensor


def assign(
    order_ZA: Tensor, asking_Z: Tensor, experts: int, chosen: int, places: int, *, reroute: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Fill the places: in round r every token that still wants an expert asks for the r-th in its order.

    Returns the experts chosen, whether each took the token, and the place it gave: (Z, J) each. Dropping has k rounds.
    """
    number_X = torch.arange(experts, device=order_ZA.device)
    slot_J = torch.arange(chosen, device=order_ZA.device)
    chosen_ZJ = order_ZA[:, :chosen]
    taken_ZJ = torch.zeros_like(chosen_ZJ, dtype=torch.bool)
    place_ZJ = torch.zeros_like(chosen_ZJ)
    used_X = torch.zeros_like(number_X)
    for r in range(order_ZA.shape[1]):
        expert_Z, has_Z = order_ZA[:, r], taken_ZJ.sum(1)
        asks_ZX = (expert_Z[:, None] == number_X) & (asking_Z & (has_Z < chosen))[:, None]
        # In the order of the batch, behind the tokens that earlier rounds placed.
        place_ZX = asks_ZX.cumsum(0) - 1 + used_X
        taken_ZX = asks_ZX & (place_ZX < places)
        used_X = used_X + taken_ZX.sum(0)
        slot_ZJ = slot_J == (has_Z[:, None] if reroute else r)
        filled_ZJ = slot_ZJ & taken_ZX.any(1, keepdim=True)
        chosen_ZJ = torch.where(filled_ZJ, expert_Z[:, None], chosen_ZJ)
        place_ZJ = torch.where(filled_ZJ, (place_ZX * taken_ZX).sum(1, keepdim=True), place_ZJ)
        taken_ZJ = taken_ZJ | filled_ZJ
    return chosen_ZJ, taken_ZJ, place_ZJ


def first_in_row(chosen_ZJ: Tensor, asking_BT: Tensor, experts: int, most: int) -> Tensor:
    """True for the first `most` choices of each expert in a row, token after token: (Z, J)."""
    chosen = chosen_ZJ.reshape(len(asking_BT), -1)
    asking = asking_BT.repeat_interleave(chosen_ZJ.shape[1], 1)
    asks = (chosen[..., None] == torch.arange(experts, device=chosen_ZJ.device)) & asking[..., None]
    place = asks.cumsum(1).gather(2, chosen[..., None])[..., 0]
    return ((place <= most) & asking).view(chosen_ZJ.shape)
