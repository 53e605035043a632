"""Optimisers that are wrong, each in one respect: momentum, and a step along its sign."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import BeforeValidator
from tests.testing.wrong.table import Promises, Table
from torch import Tensor

from anyformer.describe import from_toml, to_toml
from anyformer.operations import Weight
from anyformer.testing import optimisers, runs
from anyformer.tuning import Optimiser
from anyformer.tuning.optimisers.rule_module import Rule, State

KEEP = 0.9


@dataclass(frozen=True)
class AlongSign(Rule):
    """m <- keep m + g; w <- w - rate (sign(m) + decay w)."""

    elementwise: ClassVar[bool] = True
    forward: float = 1.0

    def start(self, weight: Tensor) -> State:
        return {"momentum": torch.zeros_like(weight)}

    def change(self, weight: Tensor, gradient: Tensor, state: State, rate: float, decay: float) -> None:
        momentum = state["momentum"].mul_(KEEP).add_(gradient)
        weight.mul_(1 - rate * decay).add_(momentum.sign(), alpha=-rate * self.forward * self.factor(momentum))

    def factor(self, momentum: Tensor) -> float:
        return 1.0


class SignSteps(Optimiser):
    """The right one."""

    made: ClassVar[type[AlongSign]] = AlongSign
    forward: ClassVar[float] = 1.0
    kind: Literal["sign_steps"] = "sign_steps"
    learning_rate: float = 1e-4
    weight_decay: float = 0.1

    def state_bytes(self, weight: Weight) -> int:
        return 4 * weight.count

    def rule(self, weight: Weight) -> Rule:
        return self.made(self.forward)


def by_hand(optimiser: SignSteps, weight: Tensor, gradient: Tensor, state: dict[str, Any], update: int, rate: float) -> Tensor:
    state["m"] = KEEP * state.get("m", 0) + gradient
    decay = optimiser.weight_decay if weight.dim() > 1 else 0
    return weight - rate * (optimiser.forward * torch.sign(state["m"]) + decay * weight)


def description_survives_text(optimiser: Optimiser) -> None:
    """An optimiser written as TOML and read again is equal."""
    assert from_toml(type(optimiser), to_toml(optimiser)) == optimiser


def owed(made: type[SignSteps]) -> Promises:
    optimiser = made()
    of_it = {each.__name__: partial(each, optimiser) for each in (description_survives_text, *optimisers.CONTRACTS)}
    of_it[optimisers.updates_equal_its_twin.__name__] = partial(optimisers.updates_equal_its_twin, optimiser, by_hand)
    run = runs.run_with(optimiser)
    learns = runs.loss_falls_at_some_rate, runs.killed_and_resumed_equals_never_interrupted
    return of_it | {each.__name__: partial(each, run) for each in learns}


OPTIMISERS = Table(owed)


@OPTIMISERS.breaks("description_survives_text")
class HalvesItself(SignSteps):
    """Halves a field whenever it is read."""

    kind: Literal["halves_itself"] = "halves_itself"
    unused: Annotated[float, BeforeValidator(lambda given: given / 2)] = 1.0


@OPTIMISERS.breaks("state_takes_the_declared_bytes")
class DeclaresHalf(SignSteps):
    """Declares its state in 16 bits, and keeps it in 32."""

    kind: Literal["declares_half"] = "declares_half"

    def state_bytes(self, weight: Weight) -> int:
        return 2 * weight.count


class Counting(AlongSign):
    """Every step is a little longer than the one before."""

    def factor(self, momentum: Tensor) -> float:
        momentum.steps = getattr(momentum, "steps", 0) + 1  # type: ignore[attr-defined]
        return 1 + 1e-6 * momentum.steps  # type: ignore[attr-defined]


@OPTIMISERS.breaks(
    "state_survives_save_and_load",
    "killed_and_resumed_equals_never_interrupted",
    because="a run goes on from the same file",
)
class CountsBeside(SignSteps):
    """Counts its updates beside the numbers that a file keeps, with so small an effect that its twin does not see it."""

    made = Counting
    kind: Literal["counts_beside"] = "counts_beside"


class ByTheNorm(AlongSign):
    """A step depends on all numbers of a weight."""

    def factor(self, momentum: Tensor) -> float:
        return 1 + 1e-7 * float(momentum.norm())


@OPTIMISERS.breaks("parts_of_a_weight_change_like_the_whole")
class NotElementwise(SignSteps):
    """Says that each number changes by itself; a little does not."""

    made = ByTheNorm
    kind: Literal["not_elementwise"] = "not_elementwise"


class TakesAll(AlongSign):
    """Takes all that stands in its state for its own: with weights in bf16, a copy of the weight too."""

    def change(self, weight: Tensor, gradient: Tensor, state: State, rate: float, decay: float) -> None:
        super().change(weight, gradient, state, len(state) * rate, decay)


@OPTIMISERS.breaks("weights_in_bf16_change_like_their_copies")
class WrongInBf16(SignSteps):
    """Goes farther with weights in bf16."""

    made = TakesAll
    kind: Literal["wrong_in_bf16"] = "wrong_in_bf16"


class Longer(AlongSign):
    """Its steps are longer than it says."""

    def factor(self, momentum: Tensor) -> float:
        return 1.1


@OPTIMISERS.breaks("updates_equal_its_twin")
class WrongStep(SignSteps):
    """Another formula than it says."""

    made = Longer
    kind: Literal["wrong_step"] = "wrong_step"


@OPTIMISERS.breaks("loss_falls_at_some_rate")
class Climbs(SignSteps):
    """Climbs, and so does its formula."""

    forward = -1.0
    kind: Literal["climbs"] = "climbs"
