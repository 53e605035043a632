"""A training step as it is priced: what learns, by which loss, and which models stand beside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from anyformer.costs.fine_tuning import FineTuning, Method
from anyformer.costs.moments import PeakMemory
from anyformer.costs.peak import peak_memory
from anyformer.costs.saved import TracedLoss
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.tuning import Optimiser

STILL = 4
"""Bytes of a weight of a model that does not learn: it is loaded in fp32."""


@dataclass(frozen=True)
class Second:
    """A second model of a step: one with a `signal` learns every weight by it, in a forward pass before the first model's; one
    without stays as it is, and holds its weights alone. `predicted`: positions of a row of T that its head reads; None: all.
    `length`: T of its rows, where it reads what the first model gives, in a forward pass behind it. `asked`: whether passes ask
    it; else its weights alone are there, as those of a model that reads the samples that an update learns from."""

    architecture: Architecture
    signal: TracedLoss | None = None
    predicted: Callable[[int], int] | None = None
    length: int | None = None
    asked: bool = True

    def flops(self, shape: Shape, plan: Plan) -> int:
        """FLOPs of a micro-batch, with every query-key pair: forward, and backward too if it learns."""
        if not self.asked:
            return 0
        if self.length is not None:
            shape = replace(shape, length=self.length)
        forward = _forward(self.architecture, shape, plan)
        if self.predicted is not None:
            count, headless = self.predicted(shape.length), self.architecture.but(head=None)
            forward = _forward(headless, shape, plan)
            if count:
                fewer = replace(shape, length=count)
                forward += _forward(self.architecture, fewer, plan) - _forward(headless, fewer, plan)
        return forward if self.signal is None else 3 * forward


@dataclass(frozen=True)
class PricedStep:
    """`optimiser`: AdamW if it is not said; `method`: where not all weights learn, or averages are kept; `signal`: the loss and
    what it reads, by default the cross-entropy of a token at every position of rows without padding; `seconds`: the models that
    its passes ask; `held`: models that are asked between updates, reward models, and hold their weights alone; `uses`: how
    often a batch is learnt from."""

    architecture: Architecture
    optimiser: Optimiser | None = None
    method: Method | None = None
    signal: TracedLoss | None = None
    seconds: tuple[Second, ...] = ()
    held: tuple[Architecture, ...] = ()
    uses: int = 1

    def shape(self, samples: int, length: int) -> Shape:
        """The sizes of a micro-batch of a run whose rows have `length` positions."""
        if self.signal is not None:
            return self.signal.shape(samples, length)
        return Shape(batch=samples, length=length, source=self.architecture.source_of(length))

    @property
    def position_bytes(self) -> int:
        """Bytes per position of a batch beside those of tokens, targets and masks."""
        return 0 if self.signal is None else self.signal.position_bytes

    def peak(self, shape: Shape, plan: Plan, accumulation: int = 1) -> PeakMemory:
        """Peak memory of an update of `accumulation` micro-batches of this shape."""
        if self.method is not None:
            peak = self._tuned(self.method, shape, plan).peak(shape.batch, accumulation)
        else:
            peak = self._whole(self.architecture, self.signal, shape, plan, accumulation)
        for second in self.seconds:
            if second.signal is None:
                peak = peak.beside(_still(second.architecture))
            elif second.length is None:
                peak = peak.after(self._whole(second.architecture, second.signal, shape, plan, accumulation))
            else:
                longer = replace(shape, length=second.length)
                peak = self._whole(second.architecture, second.signal, longer, plan, accumulation).after(peak)
        return peak.beside(sum(map(_still, self.held)))

    def flops(self, shape: Shape, plan: Plan) -> int:
        """FLOPs of a micro-batch of this shape, with every query-key pair."""
        beside = sum(second.flops(shape, plan) for second in self.seconds)
        beside += 0 if self.signal is None else self.signal.work(shape)
        if self.method is not None and not self.method.tuning.everything:
            return beside + self._tuned(self.method, shape, plan).flops(shape.batch)
        own = self.architecture.trained_cost(shape, plan).total_flops
        return beside + int(own.dense + own.backward)

    def _tuned(self, method: Method, shape: Shape, plan: Plan) -> FineTuning:
        return FineTuning(self.architecture, method, shape.length, plan, self.signal, shape.source or None)

    def _whole(
        self, architecture: Architecture, signal: TracedLoss | None, shape: Shape, plan: Plan, accumulation: int
    ) -> PeakMemory:
        """Peak memory where every weight of a model learns."""
        return peak_memory(
            architecture, batch=shape.batch, length=shape.length, source_length=shape.source or None, prefix=shape.prefix,
            plan=plan, accumulation=accumulation, optimiser=self.optimiser, signal=signal,
        )  # fmt: skip


def _still(architecture: Architecture) -> int:
    """Bytes of a model that does not learn."""
    return STILL * architecture.trained_cost(Shape(source=1)).parameters


def _forward(architecture: Architecture, shape: Shape, plan: Plan) -> int:
    return architecture.cost(shape, plan).total_flops.dense
