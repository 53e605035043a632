"""Capacity: at most so many tokens for each expert, and what becomes of the others."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from anyformer.describe import Value
from anyformer.tally import Contract, Limit

_REASON = "an expert with a capacity takes tokens in the order of the whole batch, so what it takes depends on all of them"
_CONTRACTS: tuple[Contract, ...] = ("causal", "chunked", "packed", "padded", "cached")


class Capacity(Value):
    """Every expert takes at most ceil(factor * k * M / X) of the M = B * T tokens of a call, and is padded to that many.

    First choices are served before second ones, tokens in the order of the batch (GShard, arXiv 2006.16668; Switch
    Transformer, arXiv 2101.03961, whose formula is that of k = 1). `drop`: what finds no place adds nothing, and the other
    weights stay as they are. `reroute`: it asks the next expert in the token's order (within its groups), and the weights
    are those of the experts that took the token.
    """

    factor: Annotated[float, Field(gt=0)] = 1.25
    overflow: Literal["drop", "reroute"] = "drop"
    when: Literal["training", "always"] = "training"
    """`training`: evaluation and generation give every token the experts that it chose; `always`: as Switch does it."""

    def places(self, tokens: int, experts: int, chosen: int) -> int:
        """How many tokens an expert takes; no more than there are."""
        return min(tokens, math.ceil(self.factor * chosen * tokens / experts))

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Contracts broken in evaluation."""
        return tuple(Limit(contract, _REASON) for contract in _CONTRACTS) if self.when == "always" else ()


def assign(
    order_MR: Tensor, asking_M: Tensor, experts: int, chosen: int, places: int, *, reroute: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Fill the places: in round r every token that still wants an expert asks for the r-th of its order.

    Returns the experts chosen, whether each took the token, and at which place: (M, k) each. Dropping has k rounds.
    """
    number_X = torch.arange(experts, device=order_MR.device)
    slot_J = torch.arange(chosen, device=order_MR.device)
    chosen_MJ = order_MR[:, :chosen]
    taken_MJ = torch.zeros_like(chosen_MJ, dtype=torch.bool)
    place_MJ = torch.zeros_like(chosen_MJ)
    used_X = torch.zeros_like(number_X)
    for r in range(order_MR.shape[1]):
        expert_M, has_M = order_MR[:, r], taken_MJ.sum(1)
        asks_MX = (expert_M[:, None] == number_X) & (asking_M & (has_M < chosen))[:, None]
        # In the order of the batch, behind those that earlier rounds placed.
        place_MX = asks_MX.cumsum(0) - 1 + used_X
        taken_MX = asks_MX & (place_MX < places)
        used_X = used_X + taken_MX.sum(0)
        slot_MJ = slot_J == (has_M[:, None] if reroute else r)
        here_MJ = slot_MJ & taken_MX.any(1, keepdim=True)
        chosen_MJ = torch.where(here_MJ, expert_M[:, None], chosen_MJ)
        place_MJ = torch.where(here_MJ, (place_MX * taken_MX).sum(1, keepdim=True), place_MJ)
        taken_MJ = taken_MJ | here_MJ
    return chosen_MJ, taken_MJ, place_MJ
