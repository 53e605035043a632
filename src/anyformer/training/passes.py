"""The loss of micro-batches and its gradient: the forward and backward passes of a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from anyformer.model import Transformer
from anyformer.objectives import Examples, Partners
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary, Load, add_loads, plain
from anyformer.plan import Plan
from anyformer.training.loss_scale import LossScale
from anyformer.training.precision import autocast
from anyformer.training.within import Within, directly

Found = tuple[Tensor, dict[str, tuple[Tensor, Tensor]]]
"""A summed loss, and the load of the experts by layer: plain tuples, since a compiled function cannot return our classes."""
Compute = Callable[[tuple[Tensor | None, ...], Tensor | None], Found]
"""The tensors of a micro-batch and the key of its noise -> its summed loss and loads."""
LossFunction = Callable[[Examples, Noise | None], tuple[Tensor, dict[str, Load]]]
"""A micro-batch -> its summed loss, and the load of the experts, by layer."""


class Signal(Protocol):
    """The loss of a step: an objective, or any other function of a model's outputs."""

    def counted(self, examples: Examples) -> Tensor | None:
        """(B, T) bool: the positions that count for the experts' penalties; None counts all."""

    def loss(
        self,
        model: Transformer,
        examples: Examples,
        noise: Noise | None,
        auxiliary: Auxiliary | None = None,
        partners: Partners | None = None,
    ) -> Tensor:
        """The loss summed over the examples, a 0-d tensor in fp32; `auxiliary` receives the experts' reports."""


class Passes(Protocol):
    """The forward and backward passes of a step."""

    def __call__(
        self,
        micro_batches: Sequence[Examples],
        noise: Callable[[Examples], Noise],
        count: float,
        scale: LossScale | None = None,
    ) -> tuple[float, dict[str, Load]]:
        """Add the gradient of the micro-batches' summed loss / `count`, times `scale`, to the parameters' own; gives that loss,
        unscaled, and the load of the experts by layer."""


def computing(model: Transformer, objective: Signal, plan: Plan, partners: Partners | None = None) -> Compute:
    """The loss of a micro-batch from its tensors."""
    device = model.device

    def compute(given: tuple[Tensor | None, ...], key: Tensor | None) -> Found:
        examples = Examples.of(given)
        noise = None if key is None else Noise(key, examples.rows)
        auxiliary = Auxiliary(objective.counted(examples))
        with autocast(plan, device):
            summed = objective.loss(model, examples, noise, auxiliary, partners)
        return summed, plain(auxiliary.loads)

    return compute


def loss_function(compute: Compute, plan: Plan, within: Within = directly) -> LossFunction:
    """The loss of a micro-batch, compiled if the plan says so. `within`: see `Ranks.divide`, which compiles layers."""
    compiled = plan.compile == "on" and within is directly
    chosen = torch.compile(compute, dynamic=False, fullgraph=True) if compiled else compute

    def loss(examples: Examples, noise: Noise | None) -> tuple[Tensor, dict[str, Load]]:
        summed, loads = within(lambda: chosen(examples.tensors(), None if noise is None else noise.key))
        return summed, {path: Load(*load) for path, load in loads.items()}

    return loss


def one_by_one(loss: LossFunction, alike: int = 1) -> Passes:
    """Passes of one micro-batch after another. `alike`: the processes that compute this loss, whose gradients are added."""

    def passes(
        micro_batches: Sequence[Examples],
        noise: Callable[[Examples], Noise],
        count: float,
        scale: LossScale | None = None,
    ) -> tuple[float, dict[str, Load]]:
        total, loads = 0.0, dict[str, Load]()
        for examples in micro_batches:
            summed, more = loss(examples, noise(examples))
            mean = summed / count
            own = mean / alike
            (own if scale is None else scale.times(own)).backward()  # type: ignore[no-untyped-call]
            total += mean.item()
            loads = add_loads(loads, more)
        return total, loads

    return passes
