"""Capacity: the most tokens that an expert takes, and the treatment of tokens beyond that."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.describe import Count, Positive, Registry, Value
from anyformer.operations import Contract, Limit
from anyformer.parts.sketch import number

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.experts.dispatch import Placement


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
        from anyformer.parts.experts.capacity_module import assign
        from anyformer.parts.experts.dispatch import in_places

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
        from anyformer.parts.experts.capacity_module import first_in_row
        from anyformer.parts.experts.dispatch import sorted_by_expert

        taken_ZJ = first_in_row(request.wanted, request.real, request.experts, self.tokens)
        return replace(sorted_by_expert(request.wanted, request.experts), taken=taken_ZJ)
