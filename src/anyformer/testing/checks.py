"""`Checks`: what a plug-in gives to be held to the contracts. Everything may be left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a plug-in that is only used has no need of them
    from torch import Tensor

    from anyformer.describe import Value
    from anyformer.rewards.reward import Pair
    from anyformer.testing.formulas import Formula
    from anyformer.testing.objectives import ObjectiveTwin
    from anyformer.testing.optimisers import OptimiserTwin
    from anyformer.testing.rewards import RewardTwin
    from anyformer.testing.twins import SublayerTwin


@dataclass(frozen=True)
class Checks:
    """Put one into a plug-in's module, by any name, and `anyformer check` uses it.

    A class whose fields all have defaults is its own example; any other needs one here.
    """

    examples: Sequence[Value] = ()
    """Small values of its parts, optimisers, tasks and rewards, or tiny architectures that have its parts."""
    twins: Mapping[str, SublayerTwin] = field(default_factory=dict)
    """Kind of a sublayer -> its mathematics again, in plain loops over one row: twin(part, weights, x), (T, D) to (T, D)."""
    formulas: Mapping[str, Formula] = field(default_factory=dict)
    """Kind of a norm, a mask, a choice of experts or a weighing, or name of another part of attention -> its formula again:
    what it is called with stands beside `Formula` in `testing/formulas.py`."""
    starts: Mapping[str, Mapping[str, float | str]] = field(default_factory=dict)
    """Kind or name of a part -> what each of its weights starts as: its number, or its rule (`matrix`, `residual`)."""
    solutions: Mapping[str, Callable[[Sequence[str]], Mapping[int, str]]] = field(default_factory=dict)
    """Kind of a task -> its solution: the symbols of a row to {position: symbol that is to be said there}."""
    updates: Mapping[str, OptimiserTwin] = field(default_factory=dict)
    """Kind of an optimiser -> its update again, of one matrix or vector: (optimiser, weight, gradient, state, number of the
    update, rate) to the new weight; the state is an empty dict at first."""
    rewards: Mapping[str, RewardTwin] = field(default_factory=dict)
    """Kind of a reward -> its formula again: (reward, query, response) to the total."""
    answers: Sequence[Pair] = ()
    """Prompts and answers that its rewards grade; by default the fields that one reads hold a text."""
    losses: Mapping[str, ObjectiveTwin] = field(default_factory=dict)
    """Kind of an objective of tokens -> its loss again: (objective, logits (B, T, V) in float64, targets (B, T), `IGNORED`
    where there is none) to the sum over the targets; its gradient follows by autograd."""
    runs: Sequence[Mapping[str, Any]] = ()
    """Tiny runs that train an objective, as the tables of a run's file; a path in them is looked for beside the plug-in."""
    configurations: Sequence[Mapping[str, Any]] = ()
    """Tiny configurations of its families, each with its `model_type`."""
    references: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Tensor], Tensor], Tensor]] = field(default_factory=dict)
    """Model type -> (configuration, stored tensors by name, tokens (B, T)) -> logits (B, T, V), by code that is not ours."""
