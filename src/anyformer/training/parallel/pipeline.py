"""The passes of a step whose layers are divided: torch's schedules let one piece of a batch follow another from process to
process.

The stream goes on with the sums of the experts' penalties, and its gradient comes back; only the last chunk knows the loss.
What stands beside the layers every process has, and gradients of it are added up over all of them. Copies of the model sum
their gradients once, with the last piece, or with `zero_bubble` behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
)
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, PipelineScheduleSingle
from torch.distributed.pipelining.stage import _PipelineStageBase

from anyformer.mesh import Schedule
from anyformer.model.divided import local
from anyformer.objectives import Examples
from anyformer.parts.layers.stack_module import StackModule
from anyformer.training.loss_scale import LossScale
from anyformer.training.parallel.relay import Arrived, Departed, Line, ShapeOnly
from anyformer.training.parallel.sharding import Root, kept_whole
from anyformer.training.passes import Found, MicroBatches, MicroBatchLoss, PassReports, Reported

Outputs = Tensor | tuple[Tensor, Tensor]
Order = PipelineScheduleSingle | PipelineScheduleMulti


@dataclass(frozen=True)
class Pieces:
    """The micro-batches of an update on their way through the chunks of a process, and what was found of them."""

    batch: MicroBatches
    scale: LossScale | None
    means: list[float] = field(default_factory=list)
    reported: list[Reported] = field(default_factory=list)


class LayerChunk(nn.Module):
    """What a process computes of micro-batch `number` with chunk `chunk` of the layers: the stream and penalties that go on, or
    behind the last chunk the loss."""

    def __init__(self, root: Root, loss: MicroBatchLoss, line: Line, chunk: int) -> None:
        super().__init__()
        self.root, self.loss, self.line, self.chunk = root, loss, line, chunk
        self.pieces: Pieces | None = None

    def forward(self, *given: Tensor, number: Tensor) -> Outputs:
        assert self.pieces is not None, "a schedule runs within `Pipelined`"
        batch = self.pieces.batch
        examples = batch.pieces[int(number)]
        outputs, reported = self._computed(Arrived(self.chunk, given), examples, batch.key(examples))
        self.pieces.reported.append(reported)
        last = int(number) == len(batch.pieces) - 1
        goes_back = outputs if isinstance(outputs, Tensor) else outputs[0]
        if goes_back.requires_grad:
            goes_back.register_hook(lambda gradient: self._sum_over_copies(last))  # type: ignore[no-untyped-call]
        return outputs

    def _sum_over_copies(self, last: bool) -> None:
        """With the last piece. Outside the layers other weights have gradients in one chunk than in another, and FSDP2 keeps
        those of a backward pass as one tensor: with several chunks these are summed each time."""
        self.root.sum_over_copies(last, outside=len(self.line.own) > 1)

    @torch.no_grad()
    def like(self, examples: Examples, key: Tensor) -> Tensor:
        """A stream of these examples, without values."""
        (stream, _), _ = self._computed(ShapeOnly(), examples, key)
        return torch.empty_like(stream, device="meta", requires_grad=True)

    def _computed(self, given: Arrived | ShapeOnly, examples: Examples, key: Tensor) -> tuple[Outputs, Reported]:
        self.line.given = given
        try:
            found: tuple[Outputs, Reported] = self.root(partial(self._part, examples, key))
            return found
        finally:
            self.line.given = None

    def _part(self, examples: Examples, key: Tensor) -> tuple[Outputs, Reported]:
        """The loss, or before the last chunk the stream on its way to the next."""
        try:
            return self.loss.summed(examples.tensors(), key)
        except Departed as departed:
            return (departed.stream, departed.penalties), (departed.loads, {}, {})


class Pipelined:
    """`Passes` of a model whose layers are dealt to processes, beside which others may learn in the same root. `alike`: the
    processes of a stage that compute the same loss, whose gradients are added."""

    def __init__(self, loss: MicroBatchLoss, root: Root, alike: int, schedule: Schedule) -> None:
        stack = loss.model.get_submodule(loss.model.output)
        assert isinstance(stack, StackModule), "it is the stack of the head"
        assert isinstance(stack.relay, Line), "its layers are divided"
        staged = {weight for name, weight in loss.model.named_parameters() if name in loss.model.stage_of}
        self.beside = [weight for weight in root.parameters() if weight.requires_grad and weight not in staged]
        """The weights that learn and that every process has."""
        self.root, self.line, self.alike, self.schedule = root, stack.relay, alike, schedule
        self.chunks = [LayerChunk(root, loss, self.line, chunk) for chunk in self.line.own]
        self.learning: Sequence[nn.Parameter] | None = None
        self.orders: dict[tuple[object, ...], Order] = {}
        self.made = False

    def add_gradients(self, batch: MicroBatches, scale: LossScale | None = None) -> Found:
        self.made = True
        pieces = Pieces(batch, scale)
        numbers = torch.arange(len(batch.pieces))
        self._work_at(pieces)
        try:
            order = self._order(batch)
            with self._weights():
                order.step(number=numbers, target=numbers, return_outputs=False)
        finally:
            self._work_at(None)
        # A stage in which nothing learns has no backward pass, after which it would give them back.
        self.root.give_back()
        self._add_up()
        total = torch.tensor(sum(pieces.means), dtype=torch.float64, device=self._device)
        dist.all_reduce(total, group=self.line.group.group)
        told = PassReports()
        for each in pieces.reported:
            told = told.and_of(each)
        return float(total), told

    def _work_at(self, pieces: Pieces | None) -> None:
        for chunk in self.chunks:
            chunk.pieces = pieces

    def _weights(self) -> AbstractContextManager[None]:
        """Gradients of weights that are computed apart need the weights as the forward pass had them."""
        return kept_whole(self.root) if self.schedule == "zero_bubble" else nullcontext()

    def _order(self, batch: MicroBatches) -> Order:
        """The passes of as many micro-batches of this size."""
        first = batch.pieces[0]
        key = (len(batch.pieces), *(None if given is None else given.shape for given in first.tensors()))
        if key not in self.orders:
            stream = self.chunks[0].like(first, batch.key(first))
            stages: list[_PipelineStageBase] = [self._stage(chunk, stream) for chunk in self.chunks]
            self.orders[key] = order_of(self.schedule, stages, len(batch.pieces), self._mean)
        return self.orders[key]

    def _stage(self, chunk: LayerChunk, stream: Tensor) -> PipelineStage:
        """A chunk as torch's schedules take it."""
        goes_on = (stream, torch.empty(3, device="meta", requires_grad=True))
        loss = torch.empty((), device="meta", requires_grad=True)
        return PipelineStage(
            chunk, chunk.chunk, len(self.line.chunks), self._device, group=self.line.group.group,
            input_args=() if chunk.chunk == 0 else goes_on, output_args=loss if self.line.ends(chunk.chunk) else goes_on,
        )  # fmt: skip

    def _mean(self, summed: Tensor, number: Tensor) -> Tensor:
        """The loss of a micro-batch that its backward pass begins with."""
        pieces = self.chunks[-1].pieces
        assert pieces is not None, "a schedule runs within `add_gradients`"
        mean = summed / pieces.batch.count
        pieces.means.append(mean.item())
        own = mean / self.alike
        return own if pieces.scale is None else pieces.scale.times(own)

    @torch.no_grad()
    def _add_up(self) -> None:
        """Add up the gradients of what stands beside the layers; a weight without any in all processes keeps none."""
        group = self.line.group.group
        if self.learning is None:
            known = torch.tensor([weight.grad is not None for weight in self.beside], dtype=torch.int32, device=self._device)
            dist.all_reduce(known, group=group)
            self.learning = [weight for weight, has in zip(self.beside, known.tolist(), strict=True) if has]
        for weight in self.learning:
            weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
            dist.all_reduce(local(weight.grad), group=group)

    @property
    def _device(self) -> torch.device:
        return next(self.root.parameters()).device


def order_of(schedule: Schedule, stages: list[_PipelineStageBase], count: int, loss: Callable[..., Tensor]) -> Order:
    """torch's schedule of `count` micro-batches through the stages of a process, the chunks of its layers."""
    match schedule:
        case "zero_bubble":
            return ScheduleInterleavedZeroBubble(stages, count, loss, scale_grads=False)
        case "1f1b" if len(stages) > 1:
            return ScheduleInterleaved1F1B(stages, count, loss, scale_grads=False)
        case "1f1b":
            return Schedule1F1B(stages[0], count, loss, scale_grads=False)
