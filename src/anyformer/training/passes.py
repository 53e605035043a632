"""The loss of micro-batches and its gradient: what an update is computed from, and the forward and backward passes over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import torch
from torch import Tensor
from torch._functorch import config as functorch

from anyformer.model.transformer import Transformer
from anyformer.objectives import Examples, Partners
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary, Load, add_loads, plain
from anyformer.plan import Plan
from anyformer.training.computing_place import Within
from anyformer.training.loss_scale import LossScale
from anyformer.training.precision import autocast
from anyformer.training.products import options_of

Loads = dict[str, tuple[Tensor, Tensor]]
"""The load of the experts by layer, as plain tuples: a compiled function cannot return our classes."""
Reported = tuple[Loads, dict[str, Tensor], dict[str, Tensor]]
"""What a micro-batch told beside its loss: the loads, and the sums and the largest numbers of `Auxiliary`."""
Summed = Callable[[tuple[Tensor | None, ...], Tensor | None], tuple[Tensor, Reported]]
"""The summed loss of a micro-batch's tensors, and what is told beside it; given the key of the noise."""


@dataclass(frozen=True)
class PassReports:
    """What the micro-batches of an update told: the load of the experts by layer, sums and largest numbers by name."""

    loads: Mapping[str, Load] = field(default_factory=dict)
    sums: Mapping[str, Tensor] = field(default_factory=dict)
    largest: Mapping[str, Tensor] = field(default_factory=dict)

    def and_of(self, reported: Reported) -> PassReports:
        """This and what one micro-batch more told."""
        loads, sums, largest = reported
        added = {name: value.detach() + self.sums.get(name, 0) for name, value in sums.items()}
        most = {
            name: value.detach() if name not in self.largest else torch.maximum(self.largest[name], value.detach())
            for name, value in largest.items()
        }
        every = add_loads(self.loads, {path: Load(*load) for path, load in loads.items()})
        return PassReports(every, {**self.sums, **added}, {**self.largest, **most})


Found = tuple[float, PassReports]
"""The mean loss of an update, unscaled, and what its micro-batches told."""


class TrainingSignal(Protocol):
    """The loss of a step: an objective, or any other function of a model's outputs."""

    def counted(self, examples: Examples) -> Tensor | None:
        """(B, T) bool: the positions that count for the experts' penalties; None counts all."""

    def signal(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary, partners: Partners
    ) -> Tensor:
        """The loss summed over the examples, a 0-d tensor in fp32; `auxiliary` receives the layers' reports."""


Penalised = Callable[[Tensor, Examples, Auxiliary], Tensor]
"""A summed loss and the penalties on what the layers reported."""


def unpenalised(total: Tensor, examples: Examples, auxiliary: Auxiliary) -> Tensor:
    """The summed loss as it is."""
    return total


@dataclass(frozen=True)
class MicroBatches:
    """What update number `step` is computed from: the `pieces` of a batch, and the `count` that their summed loss is divided
    by. `seed`: of the noise; `data`: the digest of the examples; `told`: sums that the model's own samples tell, of all
    processes."""

    pieces: Sequence[Examples]
    count: float
    seed: int = 0
    step: int = 0
    data: str = ""
    told: Mapping[str, Tensor] = field(default_factory=dict)

    def key(self, piece: Examples) -> Tensor:
        """The key of a piece's noise."""
        return Noise.at(self.seed, self.step, piece.rows).key


class MicroBatchLoss:
    """The loss of a micro-batch, penalties included, from its tensors."""

    def __init__(
        self,
        model: Transformer,
        objective: TrainingSignal,
        penalised: Penalised,
        plan: Plan,
        partners: Partners | None = None,
    ) -> None:
        self.model, self.objective, self.penalised = model, objective, penalised
        self.plan, self.device = plan, model.device
        self.partners: Partners = partners or {}

    def summed(self, given: tuple[Tensor | None, ...], key: Tensor | None) -> tuple[Tensor, Reported]:
        """The summed loss, and what is told beside it; `key`: of the noise."""
        examples = Examples.of(given)
        noise = None if key is None else Noise(key, examples.rows)
        auxiliary = Auxiliary(self.objective.counted(examples))
        begun = torch.is_autocast_enabled(self.device.type)  # by `compiled`
        with nullcontext() if begun else autocast(self.plan, self.device):
            total = self.objective.signal(self.model, examples, noise, auxiliary, self.partners)
            total = self.penalised(total, examples, auxiliary)
        return total, (plain(auxiliary.loads), auxiliary.sums, auxiliary.largest)


def compiled(loss: MicroBatchLoss) -> Summed:
    """`loss.summed`, compiled.

    Autocast begins outside of the graph: torch keeps no graph on disk that begins it, and a second start would trace all of it
    again. Gradients are computed without it, as those of `loss.summed` are.
    """
    inner = torch.compile(loss.summed, dynamic=False, fullgraph=True, options=options_of(loss.plan, loss.device))

    def summed(given: tuple[Tensor | None, ...], key: Tensor | None) -> tuple[Tensor, Reported]:
        with autocast(loss.plan, loss.device), functorch.patch(backward_pass_autocast="off"):
            return inner(given, key)

    return summed


class Passes(Protocol):
    """The forward and backward passes of an update, by the way in which models are divided. `made`: whether there was one, in
    which whatever is compiled was."""

    made: bool

    def add_gradients(self, batch: MicroBatches, scale: LossScale | None = None) -> Found:
        """Add the gradient of the micro-batches' mean loss, times `scale`, to the parameters' own."""


class Copies(Within, Protocol):
    """`Within` of models of which there may be several copies, that learn from different rows."""

    def sum_over_copies(self, now: bool) -> None:
        """Whether the backward passes that follow sum gradients over all copies, or keep this copy's until one does."""


class OneByOne:
    """`Passes` of whole models, one micro-batch after another; the loss is compiled if the plan says so."""

    def __init__(self, loss: MicroBatchLoss, *, eager: bool = False) -> None:
        self.loss, self.made = loss, False
        self.summed = compiled(loss) if loss.plan.compile == "on" and not eager else loss.summed

    def add_gradients(self, batch: MicroBatches, scale: LossScale | None = None) -> Found:
        self.made = True
        means, told = list[Tensor](), PassReports()
        for piece in batch.pieces:
            summed, more = self.summed(piece.tensors(), batch.key(piece))
            mean = summed / batch.count
            (mean if scale is None else scale.times(mean)).backward()  # type: ignore[no-untyped-call]
            means, told = [*means, mean.detach()], told.and_of(more)
        return total_of(means), told


def uncompiled(passes: OneByOne) -> OneByOne:
    """The same passes in eager mode, whatever the plan says."""
    return OneByOne(passes.loss, eager=True)


class Gathered:
    """`Passes` of models whose weights are gathered where they compute (`within`), one micro-batch after another; their layers
    are compiled. `alike`: the processes that compute the same loss, of other positions each, whose gradients are added.

    Copies of the models sum their gradients once, with the last micro-batch; with each where some may have images or sound,
    since FSDP2 adds up only gradients of the same weights.
    """

    def __init__(self, loss: MicroBatchLoss, within: Copies, alike: int) -> None:
        self.loss, self.within, self.alike, self.made = loss, within, alike, False

    def add_gradients(self, batch: MicroBatches, scale: LossScale | None = None) -> Found:
        self.made = True
        means, told = list[Tensor](), PassReports()
        some = self.loss.model.images is not None or self.loss.model.audio is not None
        for number, piece in enumerate(batch.pieces, 1):
            self.within.sum_over_copies(number == len(batch.pieces) or some)
            summed, more = self.within(partial(self.loss.summed, piece.tensors(), batch.key(piece)))
            mean = summed / batch.count
            own = mean / self.alike
            (own if scale is None else scale.times(own)).backward()  # type: ignore[no-untyped-call]
            means, told = [*means, mean.detach()], told.and_of(more)
        return total_of(means), told


def total_of(means: Sequence[Tensor]) -> float:
    """The sum of 0-d tensors in order, in float64, read by the host once: so it waits for no piece but the last."""
    total = torch.zeros((), dtype=torch.float64, device=means[0].device)
    for mean in means:
        total = total + mean.double()
    return total.item()
