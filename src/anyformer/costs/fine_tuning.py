"""Costs of fine-tuning: memory and time of a step in which only some weights learn, and the largest batch that fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Literal, get_args

from anyformer.costs.activations import Activations, activations
from anyformer.costs.counts import located
from anyformer.costs.hardware import Hardware
from anyformer.costs.holding import Holding
from anyformer.costs.kernel import Kernel
from anyformer.costs.kernels import kernels
from anyformer.costs.last_within import last_within
from anyformer.costs.memory import MASTER, States
from anyformer.costs.moments import PeakMemory
from anyformer.costs.peak import Find, peak_of
from anyformer.costs.roofline import step_of
from anyformer.costs.saved import Learning, TracedLoss
from anyformer.model import Architecture
from anyformer.model.adapted import adapted
from anyformer.model.loss_bytes import backward_bytes
from anyformer.operations import Address, Flops, Shape, Tally, Weight
from anyformer.plan import Plan
from anyformer.quantising import FORMATS, MatrixFormat
from anyformer.tuning import AdamW, AdamW8bit, Base, Lora, Optimiser, Tuned, Tuning

LEARNED: Mapping[str, States] = {"fp32": States(4, 4, 0), "bf16": States(2, 2, 0)}
"""Bytes of a weight that learns, and of its gradient; the size of its state is the optimiser's own."""
AVERAGE = 4
"""Bytes of the average of a parameter."""
LARGEST = 1 << 16
"""A batch larger than any that is tried."""

BASES: Mapping[Base, MatrixFormat] = {base: FORMATS[base] for base in get_args(Base)}
"""The formats of frozen weights."""


@dataclass(frozen=True)
class Method:
    """A way to fine-tune, by its usual name; `number`: type of the weights that learn and of their gradients; `averaged`:
    whether an average in fp32 is kept of each weight that learns."""

    name: str
    tuning: Tuning
    optimiser: Optimiser
    number: Literal["fp32", "bf16"] = "fp32"
    averaged: bool = False
    masters: bool = False
    """Whether the optimiser keeps a copy in fp32 of each weight that learns."""


def methods(architecture: Architecture, rank: int = 16) -> Iterator[Method]:
    """The usual ways to fine-tune: all weights, fewer bytes for the moments, fewer weights, adapters."""
    eight = AdamW8bit()
    yield Method("all weights, AdamW", Tuning(), AdamW())
    yield Method("all weights, 8-bit AdamW", Tuning(), eight)
    yield Method("all weights in bf16, 8-bit AdamW", Tuning(), eight, "bf16")
    frozen = tuple(_all_but_last(architecture))
    if frozen:
        yield Method(f"the last {_learning_layers(architecture)} layers, AdamW", Tuning(frozen=frozen, base="bf16"), AdamW())
    yield Method(f"LoRA rank {rank}, bf16 weights", Tuning(adapter=Lora(rank=rank), base="bf16"), AdamW())
    yield Method(f"LoRA rank {rank}, int8 weights", Tuning(adapter=Lora(rank=rank), base="int8"), AdamW())
    yield Method(f"QLoRA rank {rank}, nf4 weights", Tuning(adapter=Lora(rank=rank), base="nf4"), eight)


def _learning_layers(architecture: Architecture) -> int:
    """The number of layers in a quarter of the output stack."""
    return max(1, architecture.output_stack.depth // 4)


def _all_but_last(architecture: Architecture) -> Iterator[str]:
    """Patterns of all weights but those of the last layers, of the final norm and of the head."""
    last = len(architecture.stacks) - 1
    for at, (name, stack) in enumerate(architecture.stacks.items()):
        first = stack.depth - _learning_layers(architecture) if at == last else stack.depth
        yield from (f"{name}.layers.{i}.*" for i in sorted({*stack.owners[:first]} - {*stack.owners[first:]}))
    words = {path.split(".")[0] for path in architecture.folded_cost(Shape(source=1)).weights}
    yield from (f"{word}.*" for word in sorted(words - {*architecture.stacks, "head"}))


@dataclass(frozen=True, eq=False)
class FineTuning:
    """A method priced for one architecture, length and plan.

    Weights that learn and their gradients have the method's number type, frozen ones the format `tuning.base`; a frozen matrix
    in fewer bits than products have is restored to their type while it multiplies. Layers before the first that learns save
    nothing. `signal`: the loss and what it reads; without one it is the cross-entropy of the next token, and predictions of
    later tokens, which only pretraining has, are left out. `source`: S, by default that of the length.
    """

    architecture: Architecture
    method: Method
    length: int
    plan: Plan
    signal: TracedLoss | None = None
    source: int | None = None
    tuned: Tuned = field(init=False)
    _memory: dict[int, Holding] = field(init=False, default_factory=dict)
    """By the batch, those that were asked for."""

    def __post_init__(self) -> None:
        bare = self.architecture if self.signal is not None else self.architecture.but(mtp=None)
        object.__setattr__(self, "architecture", adapted(bare, self.method.tuning.adapter))
        object.__setattr__(self, "tuned", self.method.tuning.of(bare.trained_cost(Shape(source=1))))

    @property
    def states(self) -> States:
        """Bytes of a weight that learns, and of its gradient."""
        return LEARNED[self.method.number]

    @property
    def fixed(self) -> int:
        """Bytes of weights, gradients and optimiser state, whatever the batch and the length."""
        return self.weights + self.states.gradients * self.tuned.parameters + self.optimiser

    @cached_property
    def weights(self) -> int:
        """Bytes of all weights: learning ones in the method's number type, frozen ones in their format."""
        format = BASES[self.tuned.base]
        frozen = sum(format.bytes(weight) for path, weight in self._weights.items() if path not in self.tuned.learning)
        average = AVERAGE if self.method.averaged else 0
        return frozen + (self.states.weights + average) * self.tuned.parameters

    @cached_property
    def optimiser(self) -> int:
        """Bytes of the optimiser's state."""
        kept = MASTER * self.method.masters * self.tuned.parameters
        return sum(map(self.method.optimiser.state_bytes, self.tuned.learning.values())) + kept

    def peak(self, batch: int, accumulation: int = 1) -> PeakMemory:
        """Peak memory of a step, by the same walk as `cost`; `batch`: rows of one of `accumulation` micro-batches."""
        shape, plan = self._shape(batch), self.plan
        saved = self._saved(shape, plan)
        uncheckpointed = saved if plan.checkpointing == "none" else self._saved(shape, plan.but(checkpointing="none"))
        return peak_of(
            self.architecture,
            shape,
            plan,
            saved,
            uncheckpointed,
            {path: weight.count for path, weight in self.tuned.learning.items()},
            Holding(weights=self.weights, optimiser=self.optimiser, temporaries=self._restored),
            self._find,
            gradient_bytes=self.states.gradients,
            copies=self._copies(saved),
            accumulates=accumulation > 1,
            loss_bytes=backward_bytes if self.signal is None else self.signal.loss_bytes,
        )

    def memory(self, batch: int) -> Holding:
        """Bytes by purpose at the peak of a step."""
        if batch not in self._memory:
            self._memory[batch] = self.peak(batch).holding
        return self._memory[batch]

    def largest_batch(self, capacity: int) -> int:
        """The largest batch whose step fits into `capacity` bytes, 0 where none does."""
        return last_within(capacity, lambda batch: self.memory(batch).total, LARGEST)

    def seconds(self, batch: int, hardware: Hardware) -> float:
        """Roofline time of a step: frozen matrices get no gradient, layers before the first that learns no backward pass."""
        return step_of(self._work(batch), self._shape(batch), self.plan.precision.unit, hardware, "train").seconds

    def flops(self, batch: int) -> int:
        """FLOPs of a step, every query-key pair counted, as its time is priced: gradients that nothing needs within the first
        layer that learns are counted too, which is a few percent of a small model."""
        return sum(kernel.flops.dense * kernel.layers for kernel in self._work(batch))

    def _work(self, batch: int) -> list[Kernel]:
        tuned = [self._tuned_kernel(kernel) for kernel in kernels(self.architecture, self._shape(batch), self.plan, "train")]
        return [*tuned, *self._adapter_kernels(batch)]

    @cached_property
    def _weights(self) -> Mapping[str, Weight]:
        return self._tally.weights

    @cached_property
    def _tally(self) -> Tally:
        return self.architecture.trained_cost(Shape(source=1))

    @cached_property
    def _find(self) -> Find:
        return located(self._tally)

    @cached_property
    def _learning(self) -> Learning:
        return Learning(frozenset(self.tuned.learning), self.tuned.ranks, self.method.tuning.adapter)

    @cached_property
    def _forward_only(self) -> tuple[str, ...]:
        """Paths of the layers before the first that learns; none where there is a source, whose gradient comes otherwise."""
        if self.architecture.two_inputs:
            return ()
        (name, stack), *_ = self.architecture.stacks.items()
        learning = [*self.tuned.learning, *self.tuned.ranks]
        if not all(path.startswith((f"{name}.layers.", f"{name}.final_", "head.")) for path in learning):
            return ()
        learns = [any(path.startswith(f"{name}.layers.{owner}.") for path in learning) for owner in stack.owners]
        return tuple(f"{name}.layers.{i}." for i in range(learns.index(True) if any(learns) else stack.depth))

    @cached_property
    def _restored(self) -> int:
        """Bytes, in the type of products, of the largest frozen matrix that is stored in fewer bits."""
        if BASES[self.tuned.base].bits >= 8 * self.plan.activation_bytes:
            return 0
        frozen = (weight for path, weight in self._weights.items() if path not in self.tuned.learning and weight.quantisable)
        return max((self.plan.activation_bytes * prod(weight.shape) for weight in frozen), default=0)

    def _shape(self, batch: int) -> Shape:
        return Shape(batch=batch, length=self.length, source=self.architecture.source_of(self.length, self.source))

    def _saved(self, shape: Shape, plan: Plan) -> Activations:
        return activations(self.architecture, shape, plan, learning=self._learning, signal=self.signal)

    def _copies(self, saved: Activations) -> int:
        """Bytes of fp32 weights in the type of products: of all matrices, or of those that learn."""
        if self.states.weights <= self.plan.activation_bytes:
            return 0
        if len(self.tuned.learning) == len(self._weights):
            return saved.casts
        frozen = self._weights if self.tuned.base == "fp32" else {}
        wide = {**frozen, **self.tuned.learning}.values()
        counts = (weight.count for weight in wide if weight.decays and weight.fill != "embedding")
        return self.plan.activation_bytes * sum(counts)

    def _tuned_kernel(self, kernel: Kernel) -> Kernel:
        """A kernel of a training step without the gradients of frozen weights, the optimiser's without frozen weights."""
        if kernel.unit == "optimiser":
            return replace(kernel, moves=2 * self.optimiser + self.states.updated * self.tuned.parameters)
        forward_only = self._forward_only_like(kernel.address)
        learning = forward_only or any(path in self.tuned.learning for path in self._weights_of(kernel))
        share = Fraction(1) if learning or kernel.unit != "matrix" else Fraction(2, 3)
        # Layers before the first that learns compute a forward pass alone.
        share = (share * (kernel.layers - forward_only) + Fraction(forward_only, 3)) / kernel.layers
        return replace(
            kernel,
            flops=Flops(int(kernel.flops.dense * share), int(kernel.flops.exact * share)),
            executed=int(kernel.executed * share),
            moves=int(kernel.moves * share),
            weights=int(kernel.weights * share),
        )

    def _weights_of(self, kernel: Kernel) -> tuple[str, str]:
        """Possible paths of a product's weight, in the first layer of its kind: experts are stacked in a parameter."""
        at, path = kernel.address, kernel.path
        if at.layer is not None:
            first = self.architecture.stacks[at.module].layers.index(at.layer)
            path = path.replace(f".layers.{at.layer}.", f".layers.{first}.", 1)
        return f"{path}.weight", path

    def _forward_only_like(self, at: Address) -> int:
        """How many layers of the kind at an address lie before the first that learns."""
        if not self._forward_only or at.layer is None:
            return 0
        return self.architecture.stacks[at.module].layers[: len(self._forward_only)].count(at.layer)

    def _adapter_kernels(self, batch: int) -> Iterator[Kernel]:
        """The two products of each adapter, forward and for both gradients."""
        rows, size = batch * self.length, self.plan.activation_bytes
        for path, rank in self.tuned.ranks.items():
            outputs, inputs = self._weights[path].shape
            flops = 3 * 2 * rows * rank * (inputs + outputs)
            moved = 3 * size * (rows * (inputs + outputs + 2 * rank) + rank * (inputs + outputs))
            yield Kernel(
                Address(path),
                "adapter",
                "matrix",
                Flops(flops, flops),
                flops,
                moved,
                launches=6,
                number=self.plan.precision.unit,
            )
