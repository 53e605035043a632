"""The passes of a step whose layers are divided: torch's schedule lets one piece of a batch follow another from process to
process, one forward, one backward (1F1B, Narayanan et al. 2021, arXiv 2104.04473).

The stream goes on with the sums of the experts' penalties, and its gradient comes back; only the last stage knows the loss.
What stands beside the layers every process has, and gradients of it are added up over all of them. Copies of the model sum
their gradients once, with the last piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from anyformer.model.divided import local
from anyformer.objectives import Examples
from anyformer.parts.call.reports import Load
from anyformer.parts.layers.stack import StackModule
from anyformer.training.loss_scale import LossScale
from anyformer.training.parallel.relay import Arrived, Departed, Line, ShapeOnly
from anyformer.training.parallel.sharding import Root
from anyformer.training.passes import Found, Loads, MicroBatches, MicroBatchLoss, added

Outputs = Tensor | tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Pieces:
    """The micro-batches of an update on their way through a stage, and what was found of them."""

    batch: MicroBatches
    scale: LossScale | None
    means: list[float] = field(default_factory=list)
    loads: list[Loads] = field(default_factory=list)


class Stage(nn.Module):
    """What a process computes of micro-batch `number`: the stream and penalties that go on, or in the last stage the loss."""

    def __init__(self, root: Root, loss: MicroBatchLoss, line: Line) -> None:
        super().__init__()
        self.root, self.loss, self.line = root, loss, line
        self.pieces: Pieces | None = None

    def forward(self, *given: Tensor, number: Tensor) -> Outputs:
        assert self.pieces is not None, "a schedule runs within `Pipelined`"
        batch = self.pieces.batch
        examples = batch.pieces[int(number)]
        outputs, loads = self._computed(Arrived(given), examples, batch.key(examples))
        self.pieces.loads.append(loads)
        last = int(number) == len(batch.pieces) - 1
        goes_back = outputs if isinstance(outputs, Tensor) else outputs[0]
        goes_back.register_hook(lambda gradient: self.root.sum_over_copies(last))  # type: ignore[no-untyped-call]
        return outputs

    @torch.no_grad()
    def like(self, examples: Examples, key: Tensor) -> Tensor:
        """A stream of these examples, without values."""
        (stream, _), _ = self._computed(ShapeOnly(), examples, key)
        return torch.empty_like(stream, device="meta", requires_grad=True)

    def _computed(self, given: Arrived | ShapeOnly, examples: Examples, key: Tensor) -> tuple[Outputs, Loads]:
        self.line.given = given
        try:
            found: tuple[Outputs, Loads] = self.root(partial(self._part, examples, key))
            return found
        finally:
            self.line.given = None

    def _part(self, examples: Examples, key: Tensor) -> tuple[Outputs, Loads]:
        """The loss, or in an earlier stage the stream on its way to the next."""
        try:
            return self.loss.summed(examples.tensors(), key)
        except Departed as departed:
            return (departed.stream, departed.penalties), departed.loads


class Pipelined:
    """`Passes` of a model whose layers stand in stages, beside which others may learn in the same root. `alike`: the processes
    of a stage that compute the same loss, whose gradients are added."""

    def __init__(self, loss: MicroBatchLoss, root: Root, alike: int) -> None:
        stack = loss.model.get_submodule(loss.model.output)
        assert isinstance(stack, StackModule), "it is the stack of the head"
        assert isinstance(stack.relay, Line), "its layers are divided"
        staged = {weight for name, weight in loss.model.named_parameters() if name in loss.model.stage_of}
        self.beside = [weight for weight in root.parameters() if weight.requires_grad and weight not in staged]
        """The weights that learn and that every process has."""
        self.stage, self.alike = Stage(root, loss, stack.relay), alike
        self.learning: Sequence[nn.Parameter] | None = None
        self.schedules: dict[tuple[object, ...], Schedule1F1B] = {}

    def add_gradients(self, batch: MicroBatches, scale: LossScale | None = None) -> Found:
        pieces = self.stage.pieces = Pieces(batch, scale)
        numbers = torch.arange(len(batch.pieces))
        try:
            self._schedule(batch).step(number=numbers, target=numbers, return_outputs=False)
        finally:
            self.stage.pieces = None
        self._add_up()
        total = torch.tensor(sum(pieces.means), dtype=torch.float64, device=self._device)
        dist.all_reduce(total, group=self.stage.line.group.group)
        loads: dict[str, Load] = {}
        for each in pieces.loads:
            loads = added(loads, each)
        return float(total), loads

    def _schedule(self, batch: MicroBatches) -> Schedule1F1B:
        """The schedule of as many micro-batches of this size."""
        first = batch.pieces[0]
        key = (len(batch.pieces), *(None if given is None else given.shape for given in first.tensors()))
        if key not in self.schedules:
            self.schedules[key] = self._made(len(batch.pieces), self.stage.like(first, batch.key(first)))
        return self.schedules[key]

    def _made(self, count: int, stream: Tensor) -> Schedule1F1B:
        group = self.stage.line.group
        goes_on = (stream, torch.empty(3, device="meta", requires_grad=True))
        ends = torch.empty((), device="meta", requires_grad=True)
        made = PipelineStage(
            self.stage, group.rank, group.size, self._device, group=group.group,
            input_args=() if group.rank == 0 else goes_on, output_args=ends if self.stage.line.last else goes_on,
        )  # fmt: skip
        return Schedule1F1B(made, count, self._mean, scale_grads=False)

    def _mean(self, summed: Tensor, number: Tensor) -> Tensor:
        """The loss of a micro-batch that its backward pass begins with."""
        pieces = self.stage.pieces
        assert pieces is not None, "a schedule runs within `add_gradients`"
        mean = summed / pieces.batch.count
        pieces.means.append(mean.item())
        own = mean / self.alike
        return own if pieces.scale is None else pieces.scale.times(own)

    @torch.no_grad()
    def _add_up(self) -> None:
        """Add up the gradients of what stands beside the layers; a weight without any in all stages keeps none."""
        group = self.stage.line.group.group
        if self.learning is None:
            known = torch.tensor([weight.grad is not None for weight in self.beside], dtype=torch.int32, device=self._device)
            dist.all_reduce(known, group=group)
            self.learning = [weight for weight, has in zip(self.beside, known.tolist(), strict=True) if has]
        for weight in self.learning:
            weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
            dist.all_reduce(local(weight.grad), group=group)

    @property
    def _device(self) -> torch.device:
        return next(self.stage.parameters()).device
