"""What fine-tuning takes: memory and time of a step in which only some weights learn, and the largest batch that fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Literal

from anyformer.costs.activations import Activations, activations
from anyformer.costs.counts import located
from anyformer.costs.hardware import Hardware
from anyformer.costs.holding import Holding
from anyformer.costs.inference import FORMATS, Format
from anyformer.costs.kernels import Kernel, kernels
from anyformer.costs.memory import States
from anyformer.costs.peak import Find, PeakMemory, peak_of
from anyformer.costs.roofline import step_of
from anyformer.costs.saved import Learning
from anyformer.model import Architecture
from anyformer.operations import Address, Flops, Shape, Tally, Weight
from anyformer.plan import Plan
from anyformer.tuning import AdamW, AdamW8bit, Base, Lora, Optimiser, Tuned, Tuning

LEARNED: Mapping[str, States] = {"fp32": States(4, 4, 0), "bf16": States(2, 2, 0)}
"""Bytes of a weight that learns, and of its gradient; the optimisers say themselves what they keep."""
LARGEST = 1 << 16
"""Batch that is tried at most."""


@dataclass(frozen=True)
class Blocks(Format):
    """Blocks of a flattened matrix have a scale of 8 bits, and 256 of these an fp32 scale: QLoRA's double quantisation."""

    block: int = 64
    blocks: int = 256

    def matrix_bytes(self, weight: Weight) -> int:
        """ceil(n bits / 8) + ceil(n / 64) + 4 ceil(ceil(n / 64) / 256) for each copy: 0.516 bytes a number at 4 bits."""
        n = prod(weight.shape)
        scales = -(-n // self.block)
        return weight.copies * (-(-n * self.bits // 8) + scales + 4 * -(-scales // self.blocks))


BASES: Mapping[Base, Format] = {
    "fp32": FORMATS["fp32"],
    "bf16": FORMATS["bf16"],
    "int8": FORMATS["int8"],
    "nf4": Blocks("nf4", 4),
}


@dataclass(frozen=True)
class Method:
    """A way to fine-tune, as people call it; `number`: of weights that learn and of their gradients."""

    name: str
    tuning: Tuning
    optimiser: Optimiser
    number: Literal["fp32", "bf16"] = "fp32"


def methods(architecture: Architecture, rank: int = 16) -> Iterator[Method]:
    """Those that a person chooses from: all weights, fewer bytes for the moments, fewer weights, adapters."""
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
    """A quarter of the output stack's layers."""
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

    Weights that learn and their gradients are in fp32, or as the method says, the others as `tuning.base` says; of these a
    matrix in fewer bits than products have is there in their type while it multiplies. Of the layers before the first that
    learns nothing is kept.
    """

    architecture: Architecture
    method: Method
    length: int
    plan: Plan

    @cached_property
    def tuned(self) -> Tuned:
        return self.method.tuning.of(self._weights)

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
        """Bytes of all weights: those that learn as the method says, the others in their format."""
        form = BASES[self.tuned.base]
        rest = sum(form.bytes(each) for path, each in self._weights.items() if path not in self.tuned.learning)
        return rest + self.states.weights * self.tuned.parameters

    @cached_property
    def optimiser(self) -> int:
        """Bytes of the optimiser's state."""
        return sum(self.method.optimiser.state_bytes(each) for each in self.tuned.learning.values())

    def peak(self, batch: int) -> PeakMemory:
        """The most that a step holds, as `cost` walks it."""
        shape, plan = self._shape(batch), self.plan
        kept = self._kept(shape, plan)
        whole = kept if plan.checkpointing == "none" else self._kept(shape, plan.but(checkpointing="none"))
        stays = Holding(weights=self.weights, optimiser=self.optimiser, temporaries=self._restored)
        counts = {path: weight.count for path, weight in self.tuned.learning.items()}
        each, copies = self.states.gradients, self._copies(kept)
        return peak_of(self.architecture, shape, plan, kept, whole, counts, stays, self._find, each=each, copies=copies)

    def held(self, batch: int) -> Holding:
        """By purpose, when most is held."""
        return self.peak(batch).holding

    def largest_batch(self, room: int) -> int:
        """The largest batch whose step fits, 0 where none does."""
        if self.held(1).total > room:
            return 0
        low, high = 1, 2
        while high < LARGEST and self.held(high).total <= room:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.held(middle).total <= room else (low, middle)
        return low

    def seconds(self, batch: int, hardware: Hardware) -> float:
        """The roofline of a step: a frozen matrix has no gradient of its own, and layers before all that learns no way back."""
        shape = self._shape(batch)
        work = [self._less(each) for each in kernels(self.architecture, shape, self.plan, "train")]
        work += self._beside(batch)
        return step_of(work, shape, self.plan.number, hardware, "train").seconds

    @cached_property
    def _weights(self) -> Mapping[str, Weight]:
        return self._tally.weights

    @cached_property
    def _tally(self) -> Tally:
        return self.architecture.cost(Shape(source=1))

    @cached_property
    def _find(self) -> Find:
        return located(self._tally)

    @cached_property
    def _learning(self) -> Learning:
        return Learning(frozenset(self.tuned.learning), self.tuned.ranks)

    @cached_property
    def _asleep(self) -> tuple[str, ...]:
        """Paths of the layers before the first that learns; none where there is a source, whose gradient comes otherwise."""
        if self.architecture.two_inputs:
            return ()
        (name, stack), *_ = self.architecture.stacks.items()
        learning = [*self.tuned.learning, *self.tuned.ranks]
        if not all(path.startswith((f"{name}.layers.", f"{name}.final_norm", "head.")) for path in learning):
            return ()
        awake = [any(path.startswith(f"{name}.layers.{owner}.") for path in learning) for owner in stack.owners]
        return tuple(f"{name}.layers.{i}." for i in range(awake.index(True) if any(awake) else stack.depth))

    @cached_property
    def _restored(self) -> int:
        """Bytes of the largest matrix that is kept in fewer bits than it multiplies in."""
        if BASES[self.tuned.base].bits >= 8 * self.plan.activation_bytes:
            return 0
        frozen = (each for path, each in self._weights.items() if path not in self.tuned.learning and each.quantisable)
        return max((self.plan.activation_bytes * prod(each.shape) for each in frozen), default=0)

    def _shape(self, batch: int) -> Shape:
        return Shape(batch=batch, length=self.length, source=self.architecture.source_of(self.length))

    def _kept(self, shape: Shape, plan: Plan) -> Activations:
        return activations(self.architecture, shape, plan, learning=self._learning)

    def _copies(self, kept: Activations) -> int:
        """Bytes of fp32 weights in the type of products: of all matrices, or of those that learn."""
        if self.states.weights <= self.plan.activation_bytes:
            return 0
        if len(self.tuned.learning) == len(self._weights):
            return kept.casts
        frozen = self._weights if self.tuned.base == "fp32" else {}
        wide = {**frozen, **self.tuned.learning}.values()
        return sum(self.plan.activation_bytes * each.count for each in wide if each.decays and each.fill != "embedding")

    def _less(self, kernel: Kernel) -> Kernel:
        """A kernel of a training step without the gradients that nobody asks for, the optimiser without what is frozen."""
        if kernel.unit == "optimiser":
            return replace(kernel, moves=2 * self.optimiser + self.states.updated * self.tuned.parameters)
        asleep = self._asleep_like(kernel.address)
        learning = asleep or any(path in self.tuned.learning for path in self._weights_of(kernel))
        share = Fraction(1) if learning or kernel.unit != "matrix" else Fraction(2, 3)
        # Of the layers before the first that learns, the forward pass alone.
        share = (share * (kernel.layers - asleep) + Fraction(asleep, 3)) / kernel.layers
        return replace(
            kernel,
            flops=Flops(int(kernel.flops.dense * share), int(kernel.flops.exact * share)),
            executed=int(kernel.executed * share),
            moves=int(kernel.moves * share),
            weights=int(kernel.weights * share),
        )

    def _weights_of(self, kernel: Kernel) -> tuple[str, str]:
        """What the weight of a product may be called, in the first layer of its kind: experts are stacked in a parameter."""
        at, path = kernel.address, kernel.path
        if at.layer is not None:
            first = self.architecture.stacks[at.module].layers.index(at.layer)
            path = path.replace(f".layers.{at.layer}.", f".layers.{first}.", 1)
        return f"{path}.weight", path

    def _asleep_like(self, at: Address) -> int:
        """Of the layers that are like the one at an address, those before the first that learns."""
        if not self._asleep or at.layer is None:
            return 0
        return self.architecture.stacks[at.module].layers[: len(self._asleep)].count(at.layer)

    def _beside(self, batch: int) -> Iterator[Kernel]:
        """The two products of each adapter, forward and for both gradients."""
        rows, size = batch * self.length, self.plan.activation_bytes
        for path, rank in self.tuned.ranks.items():
            outputs, inputs = self._weights[path].shape
            flops = 3 * 2 * rows * rank * (inputs + outputs)
            moved = 3 * size * (rows * (inputs + outputs + 2 * rank) + rank * (inputs + outputs))
            yield Kernel(Address(path), "adapter", "matrix", Flops(flops, flops), flops, moved, launches=6)
