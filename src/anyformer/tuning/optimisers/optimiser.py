"""`Optimiser`: its settings, the bytes of its state for a weight, the rate and decay of each weight, and its rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import Field

from anyformer.describe import Registry, Value
from anyformer.operations import Weight
from anyformer.tuning.groups import WeightGroup, groups_of

if TYPE_CHECKING:
    from anyformer.tuning.optimisers.rule_module import Rule

Rate = Annotated[float, Field(gt=0, description="Peak rate; the schedule scales it.")]
Decay = Annotated[float, Field(ge=0, description="Share of a weight that goes at each step, times the learning rate.")]
Beta = Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True)
class Pace:
    """The peak rate of one weight, and its decay."""

    rate: float
    decay: float


EVERY = WeightGroup(paths=("*",))
"""The group of weights that no other group names."""


class Optimiser(Value):
    """How gradients change the weights: a `kind`, its settings, `state_bytes` and `rule`; the rule stands in a file of its own.

    Weight decay is decoupled from the gradient: w <- w - rate decay w, for matrices alone.
    """

    kinds: ClassVar[Registry] = Registry()
    averages: ClassVar[bool] = False
    """Whether it evaluates other weights than those it trains, and keeps them in step by itself: its rate must not fall."""
    kind: str
    learning_rate: Rate
    weight_decay: Decay
    groups: tuple[WeightGroup, ...] = ()
    """Weights with another rate or decay, by their paths; the first group that names a weight counts."""

    def state_bytes(self, weight: Weight) -> int:
        """Bytes of the state of a weight, but for single numbers."""
        raise NotImplementedError

    def beside(self, products: str) -> Self:
        """The optimiser of a run whose products are in these numbers (`fp32`, `bf16`, ...), with its own numbers decided."""
        return self

    def rule(self, weight: Weight) -> Rule:
        """How a weight and its state change. Weights with equal rules and an equal pace are one group."""
        raise NotImplementedError

    def paces(self, weights: Mapping[str, Weight]) -> dict[str, Pace]:
        """Rate and decay of every weight, by path. Raises `UserError` for a pattern of `groups` that names none."""
        grouped = groups_of(self.groups, weights)
        return {path: self.pace(weight, grouped.get(path, EVERY)) for path, weight in weights.items()}

    def pace(self, weight: Weight, group: WeightGroup) -> Pace:
        """Rate and decay of a weight in a group."""
        factor = float(weight.decays) if group.decay_factor is None else group.decay_factor
        wide = self.rate_of(weight) * self.share_of(weight)
        # A step takes the rate times the decay of a weight: the same share at any width.
        return Pace(self.learning_rate * group.rate_factor * wide, self.weight_decay * factor / wide)

    def rate_of(self, weight: Weight) -> float:
        """The factor of the rate of a weight that is wider than at its base (`MaximalUpdate`); 1 of one without a base.

        Here that of steps whose numbers are all about as large as the rate, whatever the gradient: 1 / m, m the times that it
        has more inputs, since so many more numbers of a step point along them.
        """
        return 1.0 if weight.fill == "head" else 1 / weight.wider.inputs

    def share_of(self, weight: Weight) -> float:
        """The factor of its rate that follows the depth: of steps that are as large whatever the gradient."""
        return weight.share
