"""Capacity: the most tokens that an expert takes, and the treatment of tokens beyond that."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from anyformer.describe import Count, Positive, Registry, Value
from anyformer.operations import Contract, Limit
from anyformer.parts.experts.dispatch import Placement, in_places, sorted_by_expert
from anyformer.parts.sketch import number

_REASON = "an expert with a capacity takes tokens in the order of the whole batch, so its choice depends on all of them"
_CONTRACTS: tuple[Contract, ...] = ("causal", "chunked", "packed", "padded", "cached")
_ROW_REASON = "an expert takes the first tokens of each row of a call that choose it"
_ROW_CONTRACTS: tuple[Contract, ...] = ("chunked", "packed", "cached")


@dataclass(frozen=True)
class CapacityRequest:
    """The experts that the Z = B * T tokens of a call ask for, before any capacity.

    `wanted` (Z, J): the experts chosen by each token; `real` (B, T): false at padding; `experts`: X; `ranked` returns (Z, A),
    every expert that a token may be sent to, the best first.
    """

    wanted: Tensor
    real: Tensor
    experts: int
    ranked: Callable[[], Tensor]


class ExpertCapacity(Value):
    """The rule for how many tokens an expert takes, and which."""

    kinds: ClassVar[Registry] = Registry()
    kind: str

    @property
    def words(self) -> str:
        """The rule in words, for pictures."""
        raise NotImplementedError

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Contracts broken in evaluation."""
        raise NotImplementedError

    @property
    def reroutes(self) -> bool:
        """Whether a token without a place is sent to its next expert."""
        return False

    def holds(self, training: bool) -> bool:
        """Whether places are limited in this mode."""
        return True

    def rows(self, tokens: int, experts: int, chosen: int) -> int:
        """Rows that all experts compute together."""
        raise NotImplementedError

    def place(self, request: CapacityRequest) -> Placement:
        """The rows in which experts compute the tokens."""
        raise NotImplementedError


class Capacity(ExpertCapacity):
    """Every expert takes at most ceil(factor * k * Z / X) of the Z = B * T tokens of a call, and is padded to that many.

    First choices are served before second ones, tokens in the order of the batch (GShard, arXiv 2006.16668; Switch
    Transformer, arXiv 2101.03961, whose formula is that of k = 1). `drop`: a choice without a place adds nothing, and the
    other weights stay as they are. `reroute`: it goes to the next expert in the token's order (within its groups), and the
    weights are those of the experts that took the token.
    """

    kind: Literal["call"] = "call"
    factor: Positive = 1.25
    overflow: Literal["drop", "reroute"] = "drop"
    when: Literal["training", "always"] = "training"
    """`training`: in evaluation and generation every token gets the experts that it chose; `always`: as in Switch."""

    @property
    def words(self) -> str:
        when = " in training" if self.when == "training" else ""
        return f"each takes {number(self.factor)} × its even share{when}, then tokens {self.overflow}"

    def places(self, tokens: int, experts: int, chosen: int) -> int:
        """Tokens that an expert takes; no more than the call has."""
        return min(tokens, math.ceil(self.factor * chosen * tokens / experts))

    @property
    def limits(self) -> tuple[Limit, ...]:
        return tuple(Limit(contract, _REASON) for contract in _CONTRACTS) if self.when == "always" else ()

    @property
    def reroutes(self) -> bool:
        return self.overflow == "reroute"

    def holds(self, training: bool) -> bool:
        return training or self.when == "always"

    def rows(self, tokens: int, experts: int, chosen: int) -> int:
        return experts * self.places(tokens, experts, chosen)

    def place(self, request: CapacityRequest) -> Placement:
        chosen = request.wanted.shape[1]
        places = self.places(len(request.wanted), request.experts, chosen)
        order_ZA = request.ranked() if self.reroutes else request.wanted
        taken = assign(order_ZA, request.real.flatten(), request.experts, chosen, places, reroute=self.reroutes)
        return in_places(*taken, request.experts, places)


class RowCapacity(ExpertCapacity):
    """Every expert takes the first `tokens` of each row of a call that chose it, and the others add nothing.

    In training and evaluation alike: Switch Transformer as implemented in transformers.
    """

    kind: Literal["row"] = "row"
    tokens: Count

    @property
    def words(self) -> str:
        return f"each takes the first {number(self.tokens)} of a row"

    @property
    def limits(self) -> tuple[Limit, ...]:
        return tuple(Limit(contract, _ROW_REASON) for contract in _ROW_CONTRACTS)

    def rows(self, tokens: int, experts: int, chosen: int) -> int:
        return tokens * chosen

    def place(self, request: CapacityRequest) -> Placement:
        # A choice without a place has a row too, so that no size depends on the routing.
        taken_ZJ = first_in_row(request.wanted, request.real, request.experts, self.tokens)
        return replace(sorted_by_expert(request.wanted, request.experts), taken=taken_ZJ)


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
