"""Exact predictions beside what the module shows on the meta device: parameters, decode state, FLOPs by PyTorch's counter.

That device runs every operation of the whole model without numbers, and so without memory. There every product is
dispatched as itself, so every query-key pair is counted, forward and backward: the `dense` convention, whatever the kernel.
A device's fused kernels report otherwise: torch's attention for CPUs and its grouped products nothing, flash attention on
CUDA a backward pass of 2.5 forward ones, for it computes scores again (`executed`). A capacity that holds in training only
pads experts' rows on top of what is declared, so FLOPs are those of a call in evaluation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from anyformer.costs.counts import flop_count, located, parameters
from anyformer.costs.examples import examples
from anyformer.costs.saved import RESIDUAL
from anyformer.model import Architecture, build
from anyformer.operations import Shape, Tally
from anyformer.parts.call.state import Slots
from anyformer.plan import Plan


@dataclass(frozen=True)
class Comparison:
    """One quantity, of a component or (``) of all; `tolerance`: how far it may be off, 0 exactly equal, None any."""

    quantity: str
    component: str
    unit: str
    predicted: float
    measured: float
    tolerance: float | None

    @property
    def difference(self) -> float:
        """Of the prediction, relative to what was measured; 0 where both are 0."""
        return 0.0 if self.predicted == self.measured else self.predicted / self.measured - 1 if self.measured else float("inf")

    @property
    def holds(self) -> bool:
        return self.tolerance is None or abs(self.difference) <= self.tolerance


def counted(architecture: Architecture, shape: Shape, plan: Plan) -> Iterator[Comparison]:
    """Parameters and FLOPs of the whole model, forward by component; the counter has no place for a tied table's backward."""
    tally = architecture.cost(shape, plan)
    model = build(architecture, plan, device="meta").eval()
    there = sums(tally, ((name, parameter.numel()) for name, parameter in model.named_parameters()))
    yield from compared("parameters", "", parameters(tally).by_component, there)
    given = [x.to("meta") for x in examples(architecture, shape)]
    with FlopCounterMode(display=False) as counter:
        output = model(*given)
        forward = counter.get_total_flops()
        modules = _parts(architecture, tally, {name: sum(flops.values()) for name, flops in counter.get_flop_counts().items()})
        output.float().sum().backward()
    declared = {name: flops.dense for name, flops in flop_count(tally).by_component.items()}
    yield from compared("forward FLOPs", "FLOPs", declared, modules, whole=forward)
    backward = counter.get_total_flops() - forward
    yield Comparison("backward FLOPs", "", "FLOPs", tally.total_flops.backward, backward, 0)


def states(architecture: Architecture, shape: Shape, plan: Plan) -> Iterator[Comparison]:
    """Decode state with room for the length, as allocated; nothing where nothing is generated."""
    tally = architecture.cost(
        Shape(batch=shape.batch, length=1, capacity=shape.length, source=shape.source), plan
    )  # room for all, whatever is asked first
    if architecture.decoder is None or architecture.latents is not None or tally.breaks("stepwise"):
        return
    dtype = torch.bfloat16 if plan.precision == "bf16" else torch.float32
    state = build(architecture, plan, device="meta").state(shape.batch, shape.length, source=shape.source, dtype=dtype)
    predicted = {**sums(tally, tally.state_bytes.items()), "positions": Slots.bytes(*state.slots.positions.shape)}
    layers = [(f"decoder.layers.{i}.{name}", each.nbytes) for i, held in enumerate(state.layers) for name, each in held.items()]
    found = {**sums(tally, layers), "positions": state.slots.nbytes}
    yield from compared("decode state", "B", predicted, found, whole=state.nbytes)


def compared(
    quantity: str,
    unit: str,
    predicted: Mapping[str, int],
    measured: Mapping[str, int],
    *,
    whole: int | None = None,
    tolerance: float = 0,
    inner: float | None = 0,
) -> Iterator[Comparison]:
    """The sum, then every component that either knows; `whole`: what was measured of all, where that is known apart."""
    everything = sum(measured.values()) if whole is None else whole
    yield Comparison(quantity, "", unit, sum(predicted.values()), everything, tolerance)
    for name in dict.fromkeys([*predicted, *measured]):
        if predicted.get(name) or measured.get(name):
            yield Comparison(quantity, name, unit, predicted.get(name, 0), measured.get(name, 0), inner)


def sums(tally: Tally, sizes: Iterable[tuple[str, int]]) -> dict[str, int]:
    """By component, from what has paths of modules."""
    find, found = located(tally), Counter[str]()
    for path, size in sizes:
        found[find(path)[0].component] += size
    return found


def labels(architecture: Architecture, tally: Tally) -> Callable[[str], str]:
    """The component that a module is, else empty; outside of all modules is the loss.

    What a block keeps beside its parts is of the residual stream.
    """
    found = {"": "loss"}
    for node in tally.nodes():
        at = node.address
        if at.whole(architecture.stacks):
            found[node.path] = at.component
        elif at.layer is not None and at.branch is None:
            found[node.path] = at.within("branch", RESIDUAL).component
    return lambda module: found.get(module, "")


def _parts(architecture: Architecture, tally: Tally, modules: Mapping[str, int]) -> dict[str, int]:
    """FLOPs by component, from those by module, each of which is counted with all below it."""
    found = Counter[str]()
    for node in tally.nodes():
        if node.address.whole(architecture.stacks):
            found[node.address.component] += modules.get(f"Transformer.{node.path}", 0)
    return found
